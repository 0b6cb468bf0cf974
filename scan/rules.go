package scan

import "math/bits"

// A step is one word of a rule: it plays one of the roles in any, with at most gap other words between it and the step before.
type step struct {
	any slots
	gap int32
}

// A rule is a sequence of steps. Because distances are bounded, every start costs a bounded amount of work.
type rule struct {
	name     string
	family   Family
	severity Severity
	names    bool // applies only to names of members
	steps    []step
}

// A ruleSet is the rules, by the role that opens them.
type ruleSet struct {
	rules []rule
	open  [64][]int
}

func newRuleSet() *ruleSet {
	rs := &ruleSet{rules: wordRules()}
	for i, r := range rs.rules {
		for b := r.steps[0].any; b != 0; b &= b - 1 {
			n := bits.TrailingZeros64(uint64(b))
			rs.open[n] = append(rs.open[n], i)
		}
	}
	return rs
}

// wordRules is the table of rules over words. The order has no meaning.
func wordRules() []rule {
	const (
		sys, instr, tool = FamilySystemOverride, FamilyInstructionOverride, FamilyToolPoisoning
		exfil, cred      = FamilyExfiltration, FamilyCredentialRequest
		low, medium      = SeverityLow, SeverityMedium
		high, critical   = SeverityHigh, SeverityCritical
		target           = sTarget | sRules
	)
	return []rule{
		{"ignore_previous_instructions", sys, critical, false, []step{{sIgnore, 0}, {sPrior, 4}, {target, 3}}},
		{"ignore_previous_instructions", sys, critical, false, []step{{sIgnore, 0}, {target, 4}, {sPrior | sBefore, 4}}},
		{"ignore_previous_instructions", sys, critical, false, []step{{sPrior, 0}, {target, 2}, {sLate, 3}}},
		{"ignore_all_instructions", sys, high, false, []step{{sIgnore, 0}, {sAll | sYour, 2}, {target, 2}}},
		{"ignore_everything_before", sys, high, false, []step{{sIgnore, 0}, {sEvery | sAll, 1}, {sPrior | sBefore, 4}}},
		{"ignore_the_user", sys, high, false, []step{{sIgnore, 0}, {sUser, 1}}},
		{"you_are_now", sys, low, false, []step{{sYou, 0}, {sAre, 0}, {sNow, 1}}},
		{"you_are_now_persona", sys, high, false, []step{{sYou, 0}, {sAre, 0}, {sNow, 1}, {sPersona, 4}}},
		{"from_now_on", sys, low, false, []step{{sFrom, 0}, {sNow, 0}, {sOn, 0}, {sYou, 4}}},
		{"new_system_prompt", sys, critical, false, []step{{sNew, 0}, {sSystem, 0}, {sPrompt, 0}}},
		{"override_system_prompt", sys, critical, false, []step{{sIgnore, 0}, {sSystem, 2}, {sPrompt, 0}}},
		{"do_not_follow", instr, high, false, []step{{sNot, 0}, {sFollow, 0}, {sYour | sPrior, 3}, {target, 2}}},
		{"instead_follow_these", instr, high, false, []step{{sInstead, 0}, {sFollow, 2}, {sThese, 1}, {target, 3}}},
		{"follow_these_instead", instr, medium, false, []step{{sFollow, 0}, {sThese, 1}, {target, 2}, {sInstead, 2}}},
		{"act_without_limits", instr, high, false, []step{{sAct, 0}, {sAs, 1}, {sIf, 0}, {sYou, 1}, {sNo, 3}, {sLimit, 3}}},
		{"pretend_no_limits", instr, high, false, []step{{sPretend, 0}, {sYou, 2}, {sNo, 3}, {sLimit, 3}}},
		{"no_limits_assistant", instr, medium, false, []step{{sFree, 0}, {sAssistant | sMode, 1}}},
		{"do_anything_now", instr, high, false, []step{{sDo, 0}, {sAnything, 0}, {sNow, 0}}},
		{"reveal_system_prompt", instr, high, false, []step{{sReveal, 0}, {sSystem, 4}, {sPrompt, 0}}},
		{"reveal_instructions", instr, medium, false, []step{{sReveal, 0}, {sYour | sHidden, 2}, {sTarget, 2}}},
		{"disable_safety", instr, medium, false, []step{{sDisable, 0}, {sSafety, 2}}},
		{"call_this_tool_first", tool, high, false, []step{{sAlways, 0}, {sCall, 1}, {sTool, 2}, {sFirst, 1}}},
		{"before_any_other_tool", tool, high, false, []step{{sPrior, 0}, {sAll, 2}, {sOther, 0}, {sTool, 1}}},
		{"hide_from_user", tool, high, false, []step{{sNot, 0}, {sTell, 1}, {sUser, 2}}},
		{"without_telling_user", tool, medium, false, []step{{sWithout, 0}, {sAsking, 1}, {sUser, 2}}},
		{"important_message_to_assistant", tool, high, false, []step{{sImportant, 0}, {sMessage, 0}, {sFrom, 1}, {sMe, 1}, {sAssistant, 8}}},
		{"fake_completion", instr, medium, false, []step{{sAnswer, 0}, {sTask, 0}, {sDone, 0}}},
		{"send_secrets", exfil, medium, false, []step{{sSend, 0}, {sSecret, 5}, {sTo, 3}, {sPlace, 6}}},
		{"give_password", cred, medium, false, []step{{sReveal, 0}, {sMe, 0}, {sSecret, 3}}},
		{"schema_shadowing", tool, medium, true, []step{{sOverride | sHidden, 0}, {sSystem | sPrompt | target, 1}}},
		{"schema_shadowing", tool, medium, true, []step{{sSystem | sPrompt | target, 0}, {sOverride | sHidden, 1}}},
	}
}
