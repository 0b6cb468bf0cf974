package counterfoil

// ForgeMessage makes a message of any payload: in tests the attacker has the keys.
func ForgeMessage(role Role, typ string, payload []byte) Message {
	return Message{role: role, pae: pae(payloadType(typ), payload)}
}

// IsCanonical reports whether the short cut recognises b, within the bounds of arguments.
func IsCanonical(b []byte) bool { return isCanonical(b, argumentLimits()) }

// Rewrite goes the long way to the canonical form, whether or not there is a short cut.
func Rewrite(b []byte) ([]byte, error) { return rewrite(b, argumentLimits(), numbersRounded) }

// Roles returns the roles of keys.
func Roles() []Role { return roles() }

// Phases returns the phases of events.
func Phases() []Phase { return phases() }

// Domains returns the domains of digests.
func Domains() []string {
	var out []string
	for _, d := range []domain{
		domainPlan, domainPolicy, domainBindings, domainParameters, domainInput, domainDryRun, domainApproval, domainUse, domainResult,
		domainReceipt, domainEvent, domainToolDef, domainArguments, domainUpstream, domainEvidence, domainEndpoint, domainScopes,
		domainValidator, domainActor, domainKeyID, domainGrant, domainLog, domainDecision,
	} {
		out = append(out, string(d))
	}
	return out
}
