package counterfoil_test

import "slices"

// publishedArms is how many cases each published test has. Their rows are called by the test's name and a letter.
func publishedArms() map[string]int {
	return map[string]int{
		"S1": 1, "S2": 8, "S3": 7, "S4": 4, "S5": 3, "S6": 4, "S7": 1, "S8": 3, "S9": 3, "S10": 4, "S11": 2, "S12": 4, "S13": 2, "S14": 4,
		"S15": 1, "S16": 2, "S17": 1, "S18": 1, "S19": 3, "S20": 1, "S21": 3, "S22": 2,
		"X1": 1, "X2": 1, "X3": 4, "X4": 1, "X5": 1, "X6": 2, "X7": 1, "X8": 2, "X9": 1, "X10": 1,
		"V1": 1, "V2": 3, "V3": 2, "Q1": 1, "E1": 20, "E2": 4, "G": 25,
	}
}

func arms() []arm {
	return slices.Concat(planArms(), approvalArms(), receiptArms(), executionArms(), evidenceArms(), semanticArms(), lackingArms())
}

const (
	invalidInput = "invalid-input"
	policyDenied = "policy-denied"
	integrity    = "integrity-failed"
)

func planArms() []arm {
	const citations = "citations are canonical URIs here; what a lenient parser would repair is refused"
	return []arm{
		{"S1a", "one plan, its fields in another order: one digest, and the whole budget", "", "TestParsePlan_equivalence", ""},
		{"S2a", "a tool that the policy does not name", policyDenied, "TestDryRun_denies/an unknown tool", ""},
		{"S2b", "a mutation under a policy of reads", policyDenied, "TestDryRun_denies/a mutation", ""},
		{"S2c", "a field that is not declared", policyDenied, "TestDryRun_denies/an undeclared field", ""},
		{"S2d", "a wider scope", policyDenied, "TestDryRun_denies/a wider scope", ""},
		{"S2e", "a row too many", policyDenied, "TestDryRun_denies/101 rows", ""},
		{"S2f", "a byte too many", policyDenied, "TestDryRun_denies/50001 bytes", ""},
		{"S2g", "another schema version", policyDenied, "TestDryRun_denies/another schema", ""},
		{"S2h", "an observation that is too old", policyDenied, "TestDryRun_denies/an observation too old", ""},
		{"S3a", "a credential in a citation", invalidInput, "TestParsePlan_rejects/a citation with a credential", citations},
		{"S3b", "a member of the plan that is not known", invalidInput, "TestParse_hasNoRoomForInstructions", ""},
		{"S3c", "an accessor for a step's tool", "", "", inBytes},
		{"S3d", "an accessor for a step", "", "", inBytes},
		{"S3e", "a member of the operation that is not known", invalidInput, "TestParse_hasNoRoomForInstructions", "the hostile member is one that is not known"},
		{"S3f", "a query plan of another id under the old input digest", invalidInput, "TestParsePlan_rejects/a query plan of another id than was digested", ""},
		{"S3g", "one source described in two ways", invalidInput, "TestParsePlan_rejects/one source described in two ways", ""},
		{"S4a", "a policy whose members are listed once", "", "", inBytes},
		{"S4b", "a policy that fails when its members are listed", "", "", inBytes},
		{"S4c", "a policy that was taken away", "", "", inBytes},
		{"S4d", "an accessor for the allowed tools", "", "", inBytes},
		{"S5a", "a million steps", invalidInput, "TestParsePlan_rejects/129 steps", "a million are met while the text is read: TestParse_documentBounds"},
		{"S5b", "two fields where one is allowed", policyDenied, "TestDryRun_denies/two fields where one is allowed", ""},
		{"S5c", "two citations where one is allowed", policyDenied, "TestPolicy_citations/two of one", ""},
		{"S6a", "a citation that was encoded twice", "", "TestPolicy_citations/written in another way", ""},
		{"S6b", "a way out of the path, encoded", invalidInput, "TestPolicy_citations/an encoded way out", ""},
		{"S6c", "a citation of another host", policyDenied, "TestPolicy_citations/another host", ""},
		{"S6d", "a citation of another path", policyDenied, "TestPolicy_citations/another path", ""},
		{"S7a", "a policy that is read once while an approval is made", "", "", inBytes},
	}
}

func approvalArms() []arm {
	return []arm{
		{"S8a", "an approval's id without end", invalidInput, "TestApprove_refuses/an id without end", ""},
		{"S8b", "an approval of 129 steps", invalidInput, "TestConformance_oversized/an approval of 129 steps", ""},
		{"S8c", "a context with a name without end", invalidInput, "TestConformance_oversized/a context with a name without end", ""},
		{"S9a", "80 rows of 100: the narrower limits, and the dry run's digests", "", "TestApprove", ""},
		{"S9b", "verification gives the same approval", "", "TestVerifyBundle", "verification takes bytes and gives a report"},
		{"S9c", "more rows than planned", policyDenied, "TestApprove_refuses/more rows than planned", ""},
		{"S10a", "a dry run with another policy's digest", integrity, "TestParseDryRun_forged", ""},
		{"S10b", "another approver than the one who signed", "signature-invalid", "TestAuthorize_forgedApprovals/another approver than the signer", "approvers belong to keys: it is the signature that does not fit"},
		{"S10c", "the source has another version now", "context-mismatch", "TestAuthorize_context/another source version", ""},
		{"S10d", "at the very end of the approval", "approval-expired", "TestAuthorize_window/at the end", ""},
		{"S11a", "cancelled before signing", "aborted", "TestApprove_cancelled", ""},
		{"S11b", "cancelled while signing", "aborted", "TestApprove_cancelled", ""},
		{"S12a", "no clock", "clock", "TestApprove_refuses/no clock", "a missing time is the clock's fault, not the caller's form"},
		{"S12b", "issued in the future, beyond the skew", invalidInput, "TestApprove_refuses/issued in the future beyond the skew", ""},
		{"S12c", "the source became too old before it was signed", policyDenied, "TestApprove_refuses/the source got too old meanwhile", ""},
		{"S12d", "it had ended before it was signed", "approval-expired", "TestApprove_refuses/ended already", ""},
		{"S13a", "parameters of too many bytes", invalidInput, "TestParseOperation_rejects/bytes over the limit", ""},
		{"S13b", "parameters of too many values", invalidInput, "TestParseOperation_rejects/values over the limit", "the bound is met while the text is read"},
		{"S14a", "a query plan of another id", integrity, "TestAuthorize_anotherOperation/another method", ""},
		{"S14b", "the right operation: bound to approval, step and input", "", "TestExecute", ""},
		{"S14c", "the caller changes its operation afterwards", "", "TestExecute_operationOwnsItsMemory", "an operation keeps its own bytes"},
		{"S14d", "the same approval again", "already-used", "TestExecute_replay", "a use that is spent has a code of its own"},
		{"S15a", "another fingerprint under the same id", integrity, "TestParseOperation_rejects/a fingerprint of another body", ""},
		{"S16a", "narrowing several steps by one number", "", "TestApprove_limits", "limits are by step: there is no number for all of them to misread"},
		{"S16b", "limits by step, and their sums", "", "TestApprove_limits", ""},
		{"S17a", "the source became too old before execution", policyDenied, "TestExecute_sourceGrowsOld", ""},
	}
}

func receiptArms() []arm {
	return []arm{
		{"S18a", "a receipt verified long after", "", "TestVerifyBundle", "offline, with public keys alone"},
		{"S19a", "more rows than were approved", "execution-failed", "TestExecute_outcomes/81 rows/read", "there is a receipt all the same, which says what was seen"},
		{"S19b", "a receipt with other rows, result, approval, step or use", integrity, "TestVerifyBundle_forged", "another result is signature-invalid: nothing but the receipt and its log names it"},
		{"S19c", "a receipt with another signature", "signature-invalid", "TestVectors_refused/a signature of zeros", ""},
		{"S20a", "a use that the store does not vouch for", "signature-invalid", "TestVerifyBundle_keys", "the record is signed by the ledger; nobody has to ask the store"},
		{"S21a", "an execution's id without end", invalidInput, "TestConformance_oversized/an execution with an id without end", ""},
		{"S21b", "a receipt with an id without end", invalidInput, "TestConformance_oversized/a receipt with an id without end", ""},
		{"S21c", "a forged receipt costs one signature's verification", "signature-invalid", "TestVectors_refused/a receipt changed after signing", "cheap checks come first; then the signatures of log, use, approval and receipt, in this order; no callback is there to be called"},
		{"S22a", "completed in the future", "clock", "TestVerifyBundle_future", ""},
		{"S22b", "completed when the approval had ended", "", "TestExecute_late", "what happened gets a receipt that says it was late"},
	}
}

func executionArms() []arm {
	const stopped = "the executor is not entered"
	return []arm{
		{"X1a", "a success: value, receipt, two events, and no secret in them", "", "TestEvents_ofAnExecution", ""},
		{"X2a", "names of every kind that look like secrets", "", "TestEvents_holdNoSecrets", "pseudonyms are keyed: a plain hash of a name can be guessed"},
		{"X3a", "the start can't be recorded", "unavailable", "TestExecute_ledgerAnswers/unavailable", stopped},
		{"X3b", "an executor for another tool", invalidInput, "TestExecute_incomplete/executor of another tool", "found before anything is spent"},
		{"X3c", "mismatch, success, replay", "already-used", "TestConformance_mismatchThenReplay", "the mismatch spends nothing"},
		{"X3d", "the start can't be recorded, and then it can", "", "TestConformance_startFailsOnce", "use and start are one commit: what was not recorded was not spent"},
		{"X4a", "callbacks that exchange executor, operation or clock", "", "TestExecute_callbacksExchange", "an execution is taken once, and a claim holds what was authorized"},
		{"X5a", "an accessor for the executor", "", "", inBytes},
		{"X6a", "more rows than approved, from the executor", "execution-failed", "TestExecute_outcomes/81 rows/read", "after a write it is indeterminate, with what was seen"},
		{"X6b", "more bytes than approved, from the executor", "execution-failed", "TestExecute_outcomes/50001 bytes/read", "after a write it is indeterminate, with what was seen"},
		{"X7a", "an accessor for the result", "", "", inBytes},
		{"X8a", "a result of very many members", "", "TestResult_JSON/names are no values", "the approved rows and bytes bound a result; there is no other cap"},
		{"X8b", "an array that changes its length", "", "", inBytes},
		{"X9a", "the executor fails, and the end can't be recorded", "receipt-failed", "TestExecute_failsUnrecorded", "recovery finds the use"},
		{"X10a", "cancelled before it began", "aborted", "TestExecute_cancelled/before", stopped},
	}
}

func evidenceArms() []arm {
	return []arm{
		{"V1a", "the facts on a tool, without credentials and cursors", "", "TestDeriveEvidence", ""},
		{"V2a", "a fact of the discovery changed", integrity, "TestDeriveEvidence_same/another time", ""},
		{"V2b", "the discovery does not show the capability", integrity, "TestDeriveEvidence_rejects/no capability", ""},
		{"V2c", "the evidence itself edited", integrity, "TestDeriveEvidence_rejects", ""},
		{"V3a", "facts that are not known are listed", "", "TestDeriveEvidence_unavailable", "schema and source versions are digests here, and always known"},
		{"V3b", "an accessor for the kind", "", "", inBytes},
		{"Q1a", "500 dry runs in a second", "", "BenchmarkDryRun", "a benchmark and not a timed test: docs/benchmarks.md has the figures"},
	}
}

func semanticArms() []arm {
	out := make([]arm, 0, 24)
	for i, s := range []struct{ name, code string }{
		{"injection/plan-free-text", invalidInput}, {"injection/step-instruction", invalidInput}, {"injection/operation-directive", invalidInput},
		{"destructive/mutation-effect", policyDenied}, {"destructive/publish-effect", policyDenied}, {"destructive/write-tool", policyDenied},
		{"ambiguity/operation-identity-mismatch", invalidInput}, {"ambiguity/conflicting-bindings", invalidInput},
		{"ambiguity/authorization-input-drift", integrity}, {"equivalence/field-order-invariant", ""},
		{"equivalence/citation-encoding-invariant", ""}, {"equivalence/parameter-key-order-invariant", ""},
		{"equivalence/distinct-requests-diverge", ""}, {"exfiltration/undeclared-field", policyDenied},
		{"exfiltration/scope-escalation", policyDenied}, {"exfiltration/credential-in-citation", invalidInput},
		{"staleness/dry-run-freshness", policyDenied}, {"staleness/execution-clock-recheck", policyDenied}, {"staleness/schema-drift", policyDenied},
		{"safe-control/read-lifecycle", ""},
	} {
		out = append(out, arm{"E1" + string(rune('a'+i)), "corpus: " + s.name, s.code, "TestSemanticCorpus/" + s.name, ""})
	}
	for i, what := range []string{
		"two scenarios at least in each required category", "the whole corpus is at the threshold", "so is each required category",
		"two runs give the same grades",
	} {
		out = append(out, arm{"E2" + string(rune('a'+i)), what, "", "TestSemanticCorpus", ""})
	}
	return out
}

func lackingArms() []arm {
	return []arm{
		{"Ga", "the receipt's signer fails", "receipt-failed", "TestSettle_failures/the receipt can't be signed", "settling again, or recovery, issues it"},
		{"Gb", "the clock breaks during execution", "", "TestExecute_clockPanics", "the ledger's instant stands in: the receipt is not lost; TestExecute_clocksApart has a clock that shows nothing"},
		{"Gc", "the approval ends during execution", "", "TestExecute_late", "the receipt says late"},
		{"Gd", "the source becomes too old during execution", "", "TestConformance_agesWhileRunning", "freshness is judged at the use"},
		{"Ge", "the ledger answers with another record", "unknown-outcome", "TestExecute_ledgerAnswers", "a record that is not of this use never leads to execution"},
		{"Gf", "cancelled during execution", "execution-failed", "TestExecute_cancelled/while it runs", "what comes back is recorded and not accepted; after a write the code is unknown-outcome"},
		{"Gg", "cancelled between the use and the start", "aborted", "TestExecute_cancelled/after the use was spent", "use and start are one commit; the receipt says cancelled"},
		{"Gh", "the completion's clock runs backwards", "", "TestExecute_clocksApart/the clock runs backwards", "completion is never before the use"},
		{"Gi", "the ledger's clock ahead, without skew", "", "TestExecute_clocksApart/ledger ahead", "the ledger's instant decides"},
		{"Gj", "the ledger's clock past the end, with and without skew", "approval-expired", "TestExecute_clocksApart/ledger past the end", ""},
		{"Gk", "an approval that is wider than the plan", policyDenied, "TestAuthorize_forgedApprovals/rows widened", ""},
		{"Gl", "totals that are not the sums", integrity, "TestAuthorize_forgedApprovals/total of rows", ""},
		{"Gm", "two steps of one id", invalidInput, "TestParsePlan_rejects/two steps of one id", ""},
		{"Gn", "an approval that is not valid yet", "not-yet-valid", "TestAuthorize_window/a millisecond early", ""},
		{"Go", "a signature by another key or algorithm", "signature-invalid", "TestAuthorize_keys/not in the ring", "no message names an algorithm"},
		{"Gp", "a forged digest of an envelope", integrity, "TestVectors_refused/a use of another approval", "digests are always computed, and compared where they are named"},
		{"Gq", "a use that is bound to another step", "unknown-outcome", "TestSpend_recordsThatDoNotVerify", ""},
		{"Gr", "two uses at once", "already-used", "TestExecute_replayConcurrently", ""},
		{"Gs", "a result of 2,000 rows", "", "TestExecute_manyRows", "the approved rows bound it, and no other number"},
		{"Gt", "rows that are no count", "execution-failed", "TestExecute_outcomes/negative rows/read", ""},
		{"Gu", "a plan of several steps", "", "TestExecute_manySteps", ""},
		{"Gv", "a context without one of the sources", "context-mismatch", "TestAuthorize_context/the source is gone", ""},
		{"Gw", "a source that the policy does not know", policyDenied, "TestDryRun_denies/an unknown source", ""},
		{"Gx", "exactly at each hard limit, and one beyond", "", "TestParsePlan_atTheLimits", "one beyond: TestParsePlan_rejects"},
		{"Gy", "member names that look like indexes", "", "TestCanonicalize/names like indexes have no order of their own", "RFC 8785 knows no such exception"},
	}
}
