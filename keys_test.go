package counterfoil_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/counterfoil/counterfoil"
)

func keyParams() counterfoil.KeyParams {
	return counterfoil.KeyParams{
		Role: counterfoil.RoleApprover, Owner: reviewer, Custody: counterfoil.CustodyHolder, Tenants: []string{"b", "a"},
		NotBefore: now(), NotAfter: expires(),
	}
}

// The key of RFC 8037, appendix A.
const (
	rfcSeed       = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"
	rfcPublic     = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
	rfcThumbprint = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
)

func rfcKey(t testing.TB, p counterfoil.KeyParams) *counterfoil.PrivateKey {
	t.Helper()
	seed, err := base64.RawURLEncoding.DecodeString(rfcSeed)
	noError(t, err)
	k, err := counterfoil.NewPrivateKey(seed, p)
	noError(t, err)
	return k
}

func TestKeyID_isTheThumbprint(t *testing.T) {
	t.Parallel()
	if id := rfcKey(t, keyParams()).Public().ID; id != rfcThumbprint {
		t.Errorf("got %s", id)
	}
}

func TestNewPrivateKey_rejects(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(*counterfoil.KeyParams){
		"no role":               func(p *counterfoil.KeyParams) { p.Role = "" },
		"an unknown role":       func(p *counterfoil.KeyParams) { p.Role = "admin" },
		"no custody":            func(p *counterfoil.KeyParams) { p.Custody = "" },
		"an unknown custody":    func(p *counterfoil.KeyParams) { p.Custody = "cloud" },
		"no owner":              func(p *counterfoil.KeyParams) { p.Owner = "" },
		"a hidden owner":        func(p *counterfoil.KeyParams) { p.Owner = "a\u200b" },
		"no tenant":             func(p *counterfoil.KeyParams) { p.Tenants = nil },
		"a tenant twice":        func(p *counterfoil.KeyParams) { p.Tenants = []string{"a", "b", "a"} },
		"a tenant without name": func(p *counterfoil.KeyParams) { p.Tenants = []string{"a", ""} },
		"an approver of all":    func(p *counterfoil.KeyParams) { p.Tenants = []string{counterfoil.AllTenants} },
		"all tenants and one": func(p *counterfoil.KeyParams) {
			p.Role, p.Tenants = counterfoil.RoleReceipt, []string{counterfoil.AllTenants, "a"}
		},
		"no beginning":           func(p *counterfoil.KeyParams) { p.NotBefore = time.Time{} },
		"an end at the begin":    func(p *counterfoil.KeyParams) { p.NotAfter = p.NotBefore },
		"an end before it":       func(p *counterfoil.KeyParams) { p.NotAfter = p.NotBefore.Add(-time.Second) },
		"an end out of this era": func(p *counterfoil.KeyParams) { p.NotAfter = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		p := keyParams()
		f(&p)
		k, err := counterfoil.NewPrivateKey(make([]byte, 32), p)
		if counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput || k != nil {
			t.Errorf("%s: got %v, %v", name, k, err)
		}
	}
	for _, n := range []int{0, 31, 33, 64} {
		_, err := counterfoil.NewPrivateKey(make([]byte, n), keyParams())
		wantCode(t, err, counterfoil.CodeInvalidInput)
	}
}

// A private key shows itself to nobody: not by any verb, not by value, not inside another value, not in JSON or a log.
func TestPrivateKey_isNotPrinted(t *testing.T) {
	t.Parallel()
	k := rfcKey(t, keyParams())
	seed, err := base64.RawURLEncoding.DecodeString(rfcSeed)
	noError(t, err)
	var out bytes.Buffer
	for verb := rune(' '); verb < 0x7f; verb++ {
		for _, flags := range []string{"", "+", "#", "-", " ", "0", "12.3"} {
			for _, v := range []any{k, *k} {
				got := fmt.Sprintf("%"+flags+string(verb), v)
				out.WriteString(got + "\n")
				if verb >= 'a' && verb <= 'z' && verb != 'p' && !strings.Contains(flags, "12") && verb != 'w' && !strings.Contains(got, "redacted") {
					t.Errorf("%%%s%c printed %q", flags, verb, got)
				}
			}
		}
	}
	type holder struct {
		name   string
		public *counterfoil.PrivateKey
		value  counterfoil.PrivateKey
		Any    any
		Many   []*counterfoil.PrivateKey
	}
	h := holder{"h", k, *k, k, []*counterfoil.PrivateKey{k}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		fmt.Fprintf(&out, verb, h)
	}
	out.WriteString(k.String() + k.GoString())
	logger := slog.New(slog.NewTextHandler(&out, nil))
	logger.Info("x", slog.Any("k", k), slog.Any("v", *k), slog.Any("h", h))
	logger = slog.New(slog.NewJSONHandler(&out, nil))
	logger.Info("x", slog.Any("k", k), slog.Any("v", *k), slog.Any("h", h))
	if b, err := json.Marshal([]any{k}); err == nil {
		out.Write(b)
	}
	text := out.String()
	for name, leak := range map[string]string{
		"hex": fmt.Sprintf("%x", seed[:4]), "HEX": fmt.Sprintf("%X", seed[:4]), "decimal": "157 97 177", "list": "157, 97, 177",
		"Go": "0x9d, 0x61", "base64": base64.StdEncoding.EncodeToString(seed)[:8], "raw": string(seed[:4]), "octal": "235 141 261",
		"comma": "157,97,177",
	} {
		if strings.Contains(text, leak) {
			t.Errorf("the seed leaks as %s", name)
		}
	}
}

func TestPrivateKey_signsForItsRoleOnly(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := rfcKey(t, keyParams())
	for _, m := range []counterfoil.Message{
		{}, counterfoil.ForgeMessage(counterfoil.RoleReceipt, "x", nil), counterfoil.ForgeMessage("", "x", nil),
	} {
		sig, err := k.Sign(ctx, m)
		wantCode(t, err, counterfoil.CodeSignatureInvalid)
		if sig != nil {
			t.Error("a signature with an error")
		}
		_, err = new(counterfoil.PrivateKey).Sign(ctx, m)
		wantCode(t, err, counterfoil.CodeSignatureInvalid)
	}
	sig, err := k.Sign(ctx, counterfoil.ForgeMessage(counterfoil.RoleApprover, "http://example.com/HelloWorld", []byte("hello world")))
	noError(t, err)
	public, err := base64.RawURLEncoding.DecodeString(rfcPublic)
	noError(t, err)
	// DSSE's own example of what is signed.
	if !ed25519.Verify(public, []byte("DSSEv1 29 http://example.com/HelloWorld 11 hello world"), sig) {
		t.Error("what is signed is not DSSE's encoding")
	}
	p := k.Public()
	p.Tenants[0] = "other"
	if k.Public().Tenants[0] != "a" {
		t.Error("the key can be changed")
	}
}

func TestKeyRing_JSON(t *testing.T) {
	t.Parallel()
	p := keyParams()
	p.NotAfter = time.Time{}
	ring := mustRing(t, rfcKey(t, keyParams()), ledgerKey(t), receiptKey(t))
	again, err := counterfoil.ParseKeyRing(ring.JSON())
	noError(t, err)
	if d := cmp.Diff(ring.Keys(), again.Keys(), cmpopts.IgnoreUnexported(counterfoil.PublicKey{})); d != "" {
		t.Error(d)
	}
	if !bytes.Equal(again.JSON(), ring.JSON()) {
		t.Error("the ring read back prints otherwise")
	}
	got := decode(mustRing(t, rfcKey(t, keyParams())).JSON())
	want := doc{"keys": list{doc{
		"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": rfcThumbprint, "x": rfcPublic, "role": "approver",
		"owner": reviewer, "custody": "holder", "tenants": list{"a", "b"}, "notBefore": stamp(now()), "notAfter": stamp(expires()),
	}}}
	if d := cmp.Diff(any(want), got); d != "" {
		t.Error(d)
	}
	if b := mustRing(t, rfcKey(t, p)).JSON(); bytes.Contains(b, []byte("notAfter")) {
		t.Errorf("an end that is none: %s", b)
	}
	empty, err := counterfoil.NewKeyRing()
	noError(t, err)
	if string(empty.JSON()) != `{"keys":[]}` || len(empty.Keys()) != 0 {
		t.Errorf("got %s", empty.JSON())
	}
	ids := []counterfoil.KeyID{}
	for _, k := range ring.Keys() {
		ids = append(ids, k.ID)
		k.Tenants[0] = "other"
	}
	if !slices.IsSorted(ids) || slices.Contains(ring.Keys()[0].Tenants, "other") {
		t.Errorf("keys %v", ring.Keys())
	}
}

// A ring as large as it may be can be written and read.
func TestKeyRing_full(t *testing.T) {
	t.Parallel()
	keys := make([]counterfoil.PublicKey, 1025)
	for i := range keys {
		p := keyParams()
		p.Tenants = []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		k, err := counterfoil.NewPrivateKey(slices.Concat([]byte{byte(i), byte(i >> 8)}, make([]byte, 30)), p)
		noError(t, err)
		keys[i] = k.Public()
	}
	ring, err := counterfoil.NewKeyRing(keys[:1024]...)
	noError(t, err)
	again, err := counterfoil.ParseKeyRing(ring.JSON())
	noError(t, err)
	if len(again.Keys()) != 1024 {
		t.Errorf("%d keys", len(again.Keys()))
	}
	_, err = counterfoil.NewKeyRing(keys...)
	wantCode(t, err, counterfoil.CodeInvalidInput)
}

func TestNewKeyRing_rejects(t *testing.T) {
	t.Parallel()
	good := rfcKey(t, keyParams()).Public()
	for name, keys := range map[string][]counterfoil.PublicKey{
		"a key twice": {good, good},
		"one key in two roles": {good, func() counterfoil.PublicKey {
			p := keyParams()
			p.Role = counterfoil.RoleReceipt
			return rfcKey(t, p).Public()
		}()},
		"an empty key":               {{}},
		"a key made by hand":         {{ID: good.ID, Role: good.Role, Owner: good.Owner, Custody: good.Custody, Tenants: good.Tenants, NotBefore: good.NotBefore}},
		"a key under another's id":   {func() counterfoil.PublicKey { k := good; k.ID = receiptKey(t).Public().ID; return k }()},
		"a key that lost its owner":  {func() counterfoil.PublicKey { k := good; k.Owner = ""; return k }()},
		"a key that lost its tenant": {func() counterfoil.PublicKey { k := good; k.Tenants = nil; return k }()},
	} {
		r, err := counterfoil.NewKeyRing(keys...)
		if counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput || r != nil {
			t.Errorf("%s: got %v, %v", name, r, err)
		}
	}
}

func TestParseKeyRing_rejects(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(k doc){
		"a private key":          func(k doc) { k["d"] = rfcSeed },
		"another algorithm":      func(k doc) { k["alg"] = "none" },
		"another curve":          func(k doc) { k["crv"] = "X25519" },
		"another type":           func(k doc) { k["kty"] = "EC" },
		"another use":            func(k doc) { k["use"] = "enc" },
		"an unknown role":        func(k doc) { k["role"] = "admin" },
		"an unknown custody":     func(k doc) { k["custody"] = "" },
		"another id":             func(k doc) { k["kid"] = rfcPublic },
		"another key":            func(k doc) { k["x"] = rfcThumbprint },
		"a short key":            func(k doc) { k["x"] = rfcPublic[:42] },
		"a padded key":           func(k doc) { k["x"] = rfcPublic + "=" },
		"a key with stray bits":  func(k doc) { k["x"] = rfcPublic[:42] + "p" },
		"standard base64":        func(k doc) { k["x"] = strings.ReplaceAll(rfcPublic, "_", "/") },
		"no tenant":              func(k doc) { k["tenants"] = list{} },
		"a tenant twice":         func(k doc) { k["tenants"] = list{"a", "a"} },
		"an end before begin":    func(k doc) { k["notAfter"] = k["notBefore"] },
		"an end that is no time": func(k doc) { k["notAfter"] = "0001-01-01T00:00:00.000Z" },
		"a null end":             func(k doc) { k["notAfter"] = nil },
	} {
		d := asDoc(decode(mustRing(t, rfcKey(t, keyParams())).JSON()))
		f(asDoc(inside(d, "keys", 0)))
		if err := drop(counterfoil.ParseKeyRing)(canonical(d)); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: got %v", name, err)
		}
	}
	d := asDoc(decode(mustRing(t, rfcKey(t, keyParams())).JSON()))
	d["keys"] = list{inside(d, "keys", 0), inside(d, "keys", 0)}
	if err := drop(counterfoil.ParseKeyRing)(canonical(d)); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
		t.Errorf("a key twice: got %v", err)
	}
}

func TestPublicKey_MayAct(t *testing.T) {
	t.Parallel()
	p := keyParams()
	p.Role, p.Tenants = counterfoil.RoleReceipt, []string{counterfoil.AllTenants}
	k := rfcKey(t, p).Public()
	for name, c := range map[string]struct {
		tenant string
		at     time.Time
		code   counterfoil.Code
	}{
		"any tenant": {"acme", now(), ""}, "before it begins": {"acme", now().Add(-time.Millisecond), counterfoil.CodeSignatureInvalid},
		"at its end": {"acme", expires(), counterfoil.CodeSignatureInvalid},
	} {
		if got := counterfoil.CodeOf(k.MayAct(c.tenant, c.at)); got != c.code {
			t.Errorf("%s: %q", name, got)
		}
	}
	other := rfcKey(t, keyParams()).Public()
	if counterfoil.CodeOf(other.MayAct("acme", now())) != counterfoil.CodeSignatureInvalid || other.MayAct("a", now()) != nil {
		t.Error("a key of two tenants acts for others, or not for its own")
	}
}
