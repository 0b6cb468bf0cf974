package scan

import "math/bits"

// A step is one word of a rule: it plays one of the roles in any, with at most gap other words between it and the step before.
type step struct {
	any slots
	gap int
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
		ignore           = sIgnore | sReplace
	)
	return []rule{
		{"ignore_previous_instructions", sys, critical, false, []step{{ignore | sIgnoring, 0}, {sPrior, 4}, {target, 3}}},
		{"ignore_previous_instructions", sys, critical, false, []step{{ignore, 0}, {target, 4}, {sPrior | sBefore | sGot, 3}}},
		{"ignore_previous_instructions", sys, critical, false, []step{{sPrior, 0}, {target, 2}, {sLate, 3}}},
		{"ignore_all_instructions", sys, high, false, []step{{ignore, 0}, {sAll | sYour, 2}, {sTarget, 2}}},
		{"ignore_all_instructions", sys, high, false, []step{{ignore, 0}, {sAll | sYour, 1}, {sRules, 1}}},
		{"ignore_everything_before", sys, high, false, []step{{ignore, 0}, {sEvery, 1}, {sPrior | sBefore | sGot, 4}}},
		{"ignore_everything_before", sys, high, false, []step{{ignore, 0}, {sText, 2}, {sPrior | sBefore, 2}}},
		{"ignore_everything_before", sys, high, false, []step{{ignore, 0}, {sPrior, 3}, {sText, 1}}},
		{"ignore_the_user", sys, high, false, []step{{sIgnore, 0}, {sUser, 1}}},
		{"limits_lifted", sys, medium, false, []step{{sYour | sPrior, 0}, {sTarget | sLimit, 2}, {sLifted, 4}}},
		{"you_are_now", sys, low, false, []step{{sYou, 0}, {sAre, 0}, {sNow, 1}}},
		{"you_are_now_persona", sys, high, false, []step{{sYou, 0}, {sAre, 0}, {sNow, 1}, {sPersona, 4}}},
		{"from_now_on", sys, low, false, []step{{sFrom, 0}, {sNow, 0}, {sYou, 5}}},
		{"new_system_prompt", sys, critical, false, []step{{sNew, 0}, {sSystem, 0}, {sPrompt, 0}}},
		{"override_system_prompt", sys, critical, false, []step{{ignore, 0}, {sSystem, 2}, {sPrompt, 0}}},
		{"new_instructions", sys, medium, false, []step{{sImportant, 0}, {sNew, 0}, {sTarget, 0}}},
		{"new_instructions", sys, low, false, []step{{sNew, 0}, {sTarget, 0}}},
		{"do_not_follow", instr, high, false, []step{{sNot, 0}, {sFollow, 0}, {sYour | sPrior, 1}, {target, 2}}},
		{"instead_follow_these", instr, high, false, []step{{sInstead, 0}, {sFollow, 2}, {sThese, 1}, {target, 3}}},
		{"follow_these_instead", instr, medium, false, []step{{sFollow, 0}, {sThese, 1}, {target, 2}, {sInstead, 2}}},
		{"act_without_limits", instr, high, false, []step{{sAct, 0}, {sAs, 1}, {sYou, 2}, {sNo, 3}, {sLimit, 3}}},
		{"pretend_no_limits", instr, high, false, []step{{sPretend, 0}, {sYou, 2}, {sNo, 3}, {sLimit, 3}}},
		{"no_limits_assistant", instr, medium, false, []step{{sFree, 0}, {sAssistant | sMode, 1}}},
		{"no_limits_assistant", instr, medium, false, []step{{sAssistant, 0}, {sNo, 2}, {sLimit, 3}}},
		{"no_limits_assistant", instr, medium, false, []step{{sNo, 0}, {sLimit, 2}, {sAssistant, 2}}},
		{"not_bound_by_rules", instr, medium, false, []step{{sNot, 0}, {sBound, 3}, {sLimit, 4}}},
		{"jailbreak_persona", instr, medium, false, []step{{sAct, 0}, {sAs, 1}, {sDan, 2}}},
		{"jailbreak_persona", instr, medium, false, []step{{sDan, 0}, {sMode, 0}, {sDone, 1}}},
		{"do_anything_now", instr, high, false, []step{{sDo, 0}, {sAnything, 0}, {sNow, 0}}},
		{"reveal_system_prompt", instr, high, false, []step{{sReveal, 0}, {sSystem, 3}, {sPrompt, 0}}},
		{"reveal_system_prompt", instr, high, false, []step{{sGive, 0}, {sSystem, 2}, {sPrompt, 0}}},
		{"your_system_prompt", instr, medium, false, []step{{sYour, 0}, {sSystem, 1}, {sPrompt, 0}}},
		{"reveal_instructions", instr, medium, false, []step{{sReveal | sGive, 0}, {sYour | sHidden, 2}, {sTarget, 2}}},
		{"repeat_text_above", instr, medium, false, []step{{sReveal, 0}, {sText, 2}, {sBefore, 1}}},
		{"disable_safety", instr, medium, false, []step{{sDisable, 0}, {sSafety, 2}}},
		{"call_this_tool_first", tool, high, false, []step{{sAlways, 0}, {sCall, 1}, {sTool, 2}, {sFirst, 1}}},
		{"before_any_other_tool", tool, high, false, []step{{sBefore, 0}, {sAll, 2}, {sOther, 0}, {sTool, 0}}},
		{"hide_from_user", tool, high, false, []step{{sNot, 0}, {sTell, 0}, {sUser, 3}}},
		{"without_telling_user", tool, medium, false, []step{{sWithout, 0}, {sAsking, 1}, {sUser, 2}}},
		{"important_message_to_assistant", tool, high, false, []step{{sImportant, 0}, {sPrompt, 0}, {sFrom, 1}, {sMe, 1}, {sAssistant, 8}}},
		{"fake_completion", instr, medium, false, []step{{sAnswer, 0}, {sTask, 1}, {sDone, 0}}},
		{"send_secrets", exfil, medium, false, []step{{sSend, 0}, {sSecret, 5}, {sTo, 3}, {sPlace, 6}}},
		{"give_password", cred, medium, false, []step{{sReveal | sGive, 0}, {sMe, 0}, {sSecret, 3}}},
		{"schema_shadowing", tool, medium, true, []step{{sOverride | sHidden, 0}, {sSystem | sPrompt | target, 1}}},
		{"schema_shadowing", tool, medium, true, []step{{sSystem | sPrompt | target, 0}, {sOverride | sHidden, 1}}},
	}
}
