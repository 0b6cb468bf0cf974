package counterfoil_test

import (
	"slices"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

// otherLab runs an equal call of another plan under another approval.
func otherLab(t testing.TB) *lab {
	t.Helper()
	p := plan()
	p["id"] = "plan-2"
	l := newLabOf(t, p, policy(), operation())
	l.x.ID, l.x.Nonce = "execution-2", [16]byte{2}
	return l
}

// A receipt is verified by itself, against as much of what it is of as there is.
func TestVerifyReceipt(t *testing.T) {
	t.Parallel()
	b, o := newLab(t).bundle(), otherLab(t).bundle()
	whole := counterfoil.ReceiptOf{Tenant: "acme", Audience: "log.example.test", DryRun: b.DryRun, Approval: b.Approval, Consumption: b.Consumption}
	for mask := range 8 {
		of := whole
		if mask&1 == 0 {
			of.DryRun = nil
		}
		if mask&2 == 0 {
			of.Approval = nil
		}
		if mask&4 == 0 {
			of.Consumption = nil
		}
		r, err := counterfoil.ParseReceipt(b.Receipt.Envelope())
		noError(t, err)
		if err := counterfoil.VerifyReceipt(r, allKeys(t), of, tomorrow()); err != nil {
			t.Errorf("%+v: %v", of, err)
		}
		// Whatever is given, the receipt of another call is not of it.
		if err := counterfoil.VerifyReceipt(o.Receipt, allKeys(t), of, tomorrow()); mask == 0 != (err == nil) {
			t.Errorf("another receipt with %+v: %v", of, err)
		}
	}
	for name, c := range map[string]struct {
		code   counterfoil.Code
		change func(*counterfoil.ReceiptOf)
	}{
		"nothing given":                  {counterfoil.CodeIntegrityFailed, func(x *counterfoil.ReceiptOf) { *x = counterfoil.ReceiptOf{} }},
		"another tenant":                 {counterfoil.CodeIntegrityFailed, func(x *counterfoil.ReceiptOf) { x.Tenant = "other" }},
		"another audience":               {counterfoil.CodeIntegrityFailed, func(x *counterfoil.ReceiptOf) { x.Audience = "other" }},
		"a dry run that nobody made":     {counterfoil.CodeInvalidInput, func(x *counterfoil.ReceiptOf) { x.DryRun = new(counterfoil.DryRun) }},
		"an approval that nobody made":   {counterfoil.CodeInvalidInput, func(x *counterfoil.ReceiptOf) { x.Approval = new(counterfoil.Approval) }},
		"a record that nobody made":      {counterfoil.CodeInvalidInput, func(x *counterfoil.ReceiptOf) { x.Consumption = new(counterfoil.Consumption) }},
		"the dry run of another plan":    {counterfoil.CodeIntegrityFailed, func(x *counterfoil.ReceiptOf) { x.DryRun = o.DryRun }},
		"an approval of another plan":    {counterfoil.CodeIntegrityFailed, func(x *counterfoil.ReceiptOf) { x.Approval = o.Approval }},
		"a record of another approval":   {counterfoil.CodeIntegrityFailed, func(x *counterfoil.ReceiptOf) { x.Consumption = o.Consumption }},
		"no approval, another's record":  {counterfoil.CodeIntegrityFailed, func(x *counterfoil.ReceiptOf) { x.Approval, x.Consumption = nil, o.Consumption }},
		"another's approval and record":  {counterfoil.CodeIntegrityFailed, func(x *counterfoil.ReceiptOf) { x.DryRun, x.Approval, x.Consumption = nil, o.Approval, o.Consumption }},
		"another's dry run and approval": {counterfoil.CodeIntegrityFailed, func(x *counterfoil.ReceiptOf) { x.DryRun, x.Approval, x.Consumption = o.DryRun, o.Approval, nil }},
	} {
		of := whole
		c.change(&of)
		if err := counterfoil.VerifyReceipt(b.Receipt, allKeys(t), of, tomorrow()); counterfoil.CodeOf(err) != c.code {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, r := range []*counterfoil.Receipt{nil, new(counterfoil.Receipt)} {
		wantCode(t, counterfoil.VerifyReceipt(r, allKeys(t), whole, tomorrow()), counterfoil.CodeInvalidInput)
	}
	wantCode(t, counterfoil.VerifyReceipt(b.Receipt, allKeys(t), whole, time.Time{}), counterfoil.CodeClock)
	wantCode(t, counterfoil.VerifyReceipt(b.Receipt, allKeys(t), whole, now().Add(-time.Millisecond)), counterfoil.CodeClock)
	noError(t, counterfoil.VerifyReceipt(b.Receipt, allKeys(t), whole, now()))

	// The policy's skew belongs to a clock that judges; without the policy there is none.
	pol := policy()
	pol["maxClockSkewMs"] = 1000
	s := newLabOf(t, plan(), pol, operation()).bundle()
	of := counterfoil.ReceiptOf{Tenant: "acme", Audience: "log.example.test", DryRun: s.DryRun}
	noError(t, counterfoil.VerifyReceipt(s.Receipt, allKeys(t), of, now().Add(-time.Second)))
	of.DryRun = nil
	wantCode(t, counterfoil.VerifyReceipt(s.Receipt, allKeys(t), of, now().Add(-time.Second)), counterfoil.CodeClock)
}

// The key has the role of receipts, acts for the tenant at the receipt's own instant, and is not revoked.
func TestVerifyReceipt_keys(t *testing.T) {
	t.Parallel()
	r := newLab(t).bundle().Receipt
	of := counterfoil.ReceiptOf{Tenant: "acme", Audience: "log.example.test"}
	wantCode(t, counterfoil.VerifyReceipt(r, nil, of, tomorrow()), counterfoil.CodeSignatureInvalid)
	wantCode(t, counterfoil.VerifyReceipt(r, mustRing(t, ledgerKey(t)), of, tomorrow()), counterfoil.CodeSignatureInvalid)
	for name, c := range map[string]struct {
		code   counterfoil.Code
		change func(*counterfoil.PublicKey)
	}{
		"as it is":          {"", func(*counterfoil.PublicKey) {}},
		"of another role":   {counterfoil.CodeSignatureInvalid, func(k *counterfoil.PublicKey) { k.Role = counterfoil.RoleLedger }},
		"of tokens":         {counterfoil.CodeSignatureInvalid, func(k *counterfoil.PublicKey) { k.Role = counterfoil.RoleToken }},
		"of another tenant": {counterfoil.CodeSignatureInvalid, func(k *counterfoil.PublicKey) { k.Tenants = []string{"other"} }},
		"that had ended":    {counterfoil.CodeSignatureInvalid, func(k *counterfoil.PublicKey) { k.NotAfter = now() }},
		"not begun":         {counterfoil.CodeSignatureInvalid, func(k *counterfoil.PublicKey) { k.NotBefore = now().Add(time.Millisecond) }},
		"superseded before": {counterfoil.CodeRevoked, func(k *counterfoil.PublicKey) {
			k.Revoked = &counterfoil.Revocation{At: now(), Why: counterfoil.RevokedSuperseded}
		}},
		"superseded since": {"", func(k *counterfoil.PublicKey) {
			k.Revoked = &counterfoil.Revocation{At: now().Add(time.Millisecond), Why: counterfoil.RevokedSuperseded}
		}},
		"compromised since": {counterfoil.CodeRevoked, func(k *counterfoil.PublicKey) {
			k.Revoked = &counterfoil.Revocation{At: tomorrow(), Why: counterfoil.RevokedCompromised}
		}},
	} {
		k := receiptKey(t).Public()
		c.change(&k)
		if err := counterfoil.VerifyReceipt(r, mustPublicRing(t, k), of, tomorrow()); counterfoil.CodeOf(err) != c.code {
			t.Errorf("a key %s: got %v", name, err)
		}
	}
}

// An attacker who has the key of receipts can't make one that contradicts what it is of, or itself.
func TestVerifyReceipt_forged(t *testing.T) {
	t.Parallel()
	b := newLab(t).bundle()
	good := payloadOf(b.Receipt.Envelope())
	whole := counterfoil.ReceiptOf{Tenant: "acme", Audience: "log.example.test", DryRun: b.DryRun, Approval: b.Approval, Consumption: b.Consumption}
	byDryRun, byRecord := whole, whole
	byDryRun.Approval, byDryRun.Consumption, byRecord.DryRun, byRecord.Approval = nil, nil, nil, nil
	bare := counterfoil.ReceiptOf{Tenant: "acme", Audience: "log.example.test"}
	for name, c := range map[string]struct {
		of   counterfoil.ReceiptOf
		code counterfoil.Code
		set  doc
	}{
		"unchanged":                      {whole, "", doc{}},
		"another execution":              {byRecord, counterfoil.CodeIntegrityFailed, doc{"id": "execution-2"}},
		"another plan":                   {byDryRun, counterfoil.CodeIntegrityFailed, doc{"planDigest": otherDigest()}},
		"another policy":                 {byDryRun, counterfoil.CodeIntegrityFailed, doc{"policyDigest": otherDigest()}},
		"other bindings":                 {byDryRun, counterfoil.CodeIntegrityFailed, doc{"bindingsDigest": otherDigest()}},
		"a step that the plan lacks":     {byDryRun, counterfoil.CodeIntegrityFailed, doc{"stepId": "other"}},
		"an input that was not planned":  {byDryRun, counterfoil.CodeIntegrityFailed, doc{"inputDigest": otherDigest()}},
		"another approval":               {whole, counterfoil.CodeIntegrityFailed, doc{"approvalDigest": otherDigest()}},
		"another step of the approval":   {whole, counterfoil.CodeIntegrityFailed, doc{"stepId": "other"}},
		"an input that was not approved": {whole, counterfoil.CodeIntegrityFailed, doc{"inputDigest": otherDigest()}},
		"another use":                    {byRecord, counterfoil.CodeIntegrityFailed, doc{"useDigest": otherDigest()}},
		"the use, for another step":      {byRecord, counterfoil.CodeIntegrityFailed, doc{"stepId": "other"}},
		"the use, for another approval":  {byRecord, counterfoil.CodeIntegrityFailed, doc{"approvalDigest": otherDigest()}},
		"the use, for another input":     {byRecord, counterfoil.CodeIntegrityFailed, doc{"inputDigest": otherDigest()}},
		"more rows than approved":        {whole, counterfoil.CodePolicyDenied, doc{"rows": 81, "observedRows": 81}},
		"more bytes than approved":       {whole, counterfoil.CodePolicyDenied, doc{"bytes": 50_001, "observedBytes": 50_001}},
		"completed before the use":       {byRecord, counterfoil.CodeIntegrityFailed, doc{"completedAt": stamp(now().Add(-1e6))}},
		"issued before completed":        {bare, counterfoil.CodeIntegrityFailed, doc{"issuedAt": stamp(now().Add(-1e6))}},
		"late and says it is not":        {whole, counterfoil.CodeIntegrityFailed, doc{"completedAt": stamp(expires()), "issuedAt": stamp(expires())}},
		"late, which only they can see":  {bare, "", doc{"late": true}},
		"a success without its result":   {bare, counterfoil.CodeIntegrityFailed, doc{"resultDigest": nil}},
		"a success that saw more":        {bare, counterfoil.CodeIntegrityFailed, doc{"observedRows": 2}},
		"a failure that accepts":         {bare, counterfoil.CodeIntegrityFailed, doc{"outcome": "failed"}},
		"a recovered success":            {bare, counterfoil.CodeIntegrityFailed, doc{"recovered": true}},
		"uncounted with a count":         {bare, counterfoil.CodeIntegrityFailed, doc{"uncounted": true}},
	} {
		p := asDoc(clone(good))
		for k, v := range c.set {
			if p[k] = v; v == nil {
				delete(p, k)
			}
		}
		r, err := counterfoil.ParseReceipt(forgeEnvelope(t, "receipt", p, receiptKey(t)))
		noError(t, err)
		if err := counterfoil.VerifyReceipt(r, allKeys(t), c.of, tomorrow()); counterfoil.CodeOf(err) != c.code {
			t.Errorf("%s: got %v, want %q", name, err, c.code)
		}
	}
	cancelled := asDoc(clone(good))
	cancelled["outcome"], cancelled["rows"], cancelled["bytes"] = "cancelled", 0, 0
	r, err := counterfoil.ParseReceipt(forgeEnvelope(t, "receipt", cancelled, receiptKey(t)))
	noError(t, err)
	wantCode(t, counterfoil.VerifyReceipt(r, allKeys(t), bare, tomorrow()), counterfoil.CodeIntegrityFailed)

	two, err := counterfoil.ParseReceipt(forgeEnvelope(t, "receipt", good, receiptKey(t), counterfoiltest.Key(t, counterfoil.RoleReceipt, "second", "acme")))
	noError(t, err)
	wantCode(t, counterfoil.VerifyReceipt(two, allKeys(t), bare, tomorrow()), counterfoil.CodeSignatureInvalid)
}

// A key verifies in its own role and in no other: not in a bundle, a receipt by itself, a statement, a decision, a
// checkpoint or a cosignature, whatever other role the ring gives it.
func TestRoles_apart(t *testing.T) {
	t.Parallel()
	logged := func(l *lab) []byte { return loggedBundle(t, l, witnessKey(t)).Encode() }
	person, byPolicy, granted := logged(logLab(t)), logged(policyLogLab(t)), logged(grantLogLab(t))
	l := logLab(t)
	b := l.bundle()
	statement, err := b.Receipt.Statement(t.Context(), receiptKey(t))
	noError(t, err)
	decided, err := counterfoil.Decide(t.Context(), revokeParams(b.Approval.Digest()), approverKey(t), now())
	noError(t, err)
	bundle := func(raw []byte) func(*counterfoil.KeyRing) error {
		return func(ring *counterfoil.KeyRing) error {
			rep, err := counterfoil.VerifyBundle(raw, ring, tomorrow())
			if err == nil && len(rep.Witnesses) == 0 {
				return counterfoil.CodeSignatureInvalid // a stranger's cosignature counts for nothing
			}
			return err
		}
	}
	verifiers := map[string]struct {
		roles  []counterfoil.Role
		verify func(*counterfoil.KeyRing) error
	}{
		"bundle": {[]counterfoil.Role{
			counterfoil.RoleApprover, counterfoil.RoleLedger, counterfoil.RoleReceipt, counterfoil.RoleCheckpoint, counterfoil.RoleWitness,
		}, bundle(person)},
		"bundle by policy": {[]counterfoil.Role{counterfoil.RolePolicy}, bundle(byPolicy)},
		"bundle by grant":  {[]counterfoil.Role{counterfoil.RolePolicy, counterfoil.RoleApprover}, bundle(granted)},
		"receipt": {[]counterfoil.Role{counterfoil.RoleReceipt}, func(ring *counterfoil.KeyRing) error {
			return counterfoil.VerifyReceipt(b.Receipt, ring, counterfoil.ReceiptOf{Tenant: "acme", Audience: "log.example.test"}, tomorrow())
		}},
		"statement": {[]counterfoil.Role{counterfoil.RoleReceipt}, statement.Verify},
		"decision": {[]counterfoil.Role{counterfoil.RoleApprover}, func(ring *counterfoil.KeyRing) error {
			return decided.Verify(ring, revokeParams(b.Approval.Digest()))
		}},
	}
	owned := map[counterfoil.Role]string{
		counterfoil.RoleApprover: reviewer, counterfoil.RolePolicy: "gateway", counterfoil.RoleLedger: "gateway", counterfoil.RoleReceipt: "gateway",
		counterfoil.RoleCheckpoint: checkpointKey(t).Public().Owner, counterfoil.RoleWitness: watcher,
	}
	for name, v := range verifiers {
		if err := v.verify(l.x.Keys); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, role := range v.roles {
			for _, other := range counterfoil.Roles() {
				if other == role {
					continue
				}
				keys := l.x.Keys.Keys()
				i := slices.IndexFunc(keys, func(k counterfoil.PublicKey) bool { return k.Role == role && k.Owner == owned[role] })
				keys[i].Role = other
				if err := v.verify(mustPublicRing(t, keys...)); counterfoil.CodeOf(err) != counterfoil.CodeSignatureInvalid {
					t.Errorf("%s: the key of role %s as one of role %s: %v", name, role, other, err)
				}
			}
		}
	}
}

// A key of tokens signs and verifies nothing of this package, and is one of a ring all the same.
func TestRoleToken(t *testing.T) {
	t.Parallel()
	key := counterfoiltest.Key(t, counterfoil.RoleToken, "gateway", "acme")
	ring := mustRing(t, key)
	again, err := counterfoil.ParseKeyRing(ring.JSON())
	noError(t, err)
	if keys := again.Keys(); len(keys) != 1 || keys[0].Role != "token" {
		t.Errorf("the ring read back has %v", keys)
	}
	l := newLab(t)
	for name, sign := range map[string]func() error{
		"an approval": func() error {
			return drop2(counterfoil.Approve(t.Context(), l.x.DryRun, request(), key, now()))
		},
		"a decision": func() error {
			return drop2(counterfoil.Decide(t.Context(), revokeParams(l.x.DryRun.Digest()), key, now()))
		},
		"a record": func() error {
			u := l.use()
			return drop2(u.Consume(t.Context(), now(), time.Time{}, key))
		},
		"a statement": func() error { return drop2(newLab(t).bundle().Receipt.Statement(t.Context(), key)) },
	} {
		if err := sign(); err == nil {
			t.Errorf("it signs %s", name)
		}
	}
	s := newLab(t)
	s.x.Signer = key
	s.refused(counterfoil.CodeSignatureInvalid)
}
