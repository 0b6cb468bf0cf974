package counterfoil_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/torchwood"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
)

const (
	auditor = "log.example.test"
	watcher = "witness.example.test/w1"
)

func checkpointKey(t testing.TB) *counterfoil.PrivateKey {
	return counterfoiltest.Key(t, counterfoil.RoleCheckpoint, "gateway", "acme")
}

func witnessKey(t testing.TB) *counterfoil.PrivateKey {
	return counterfoiltest.Key(t, counterfoil.RoleWitness, watcher, "acme")
}

// originOf is the origin of the specification, without any code of ours.
func originOf(audience, tenant string) string {
	sum := sha256.Sum256([]byte("counterfoil/v1/log\n" + tenant))
	return audience + "/" + hex.EncodeToString(sum[:16])
}

// rawPublic is a key's raw bytes, as the ring publishes them.
func rawPublic(t testing.TB, k counterfoil.PublicKey) ed25519.PublicKey {
	t.Helper()
	x := asString(inside(decode(mustPublicRing(t, k).JSON()), "keys", 0, "x"))
	raw, err := base64.RawURLEncoding.DecodeString(x)
	noError(t, err)
	return raw
}

// A tree keeps hashes as the module for logs wants them: an independent maker of proofs.
type tree struct {
	t      testing.TB
	hashes []tlog.Hash
	n      int64
}

func (x *tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, at := range indexes {
		out[i] = x.hashes[at]
	}
	return out, nil
}

func newTree(t testing.TB, leaves ...[]byte) *tree {
	t.Helper()
	x := &tree{t: t}
	for _, b := range leaves {
		hashes, err := tlog.StoredHashes(x.n, b, x)
		noError(t, err)
		x.hashes, x.n = append(x.hashes, hashes...), x.n+1
	}
	return x
}

func (x *tree) root(size int64) [32]byte {
	x.t.Helper()
	h, err := tlog.TreeHash(size, x)
	noError(x.t, err)
	return h
}

func (x *tree) checkpoint(size int64) *counterfoil.Checkpoint {
	x.t.Helper()
	c, err := counterfoil.SignCheckpoint(x.t.Context(), auditor, "acme", size, x.root(size), checkpointKey(x.t))
	noError(x.t, err)
	return c
}

func path(p []tlog.Hash) [][32]byte {
	out := [][32]byte{}
	for _, h := range p {
		out = append(out, h)
	}
	return out
}

func (x *tree) inclusion(size, index int64, leaf []byte) counterfoil.Inclusion {
	x.t.Helper()
	p, err := tlog.ProveRecord(size, index, x)
	noError(x.t, err)
	return counterfoil.Inclusion{Event: leaf, Index: index, Path: path(p)}
}

func letters(n int) [][]byte {
	var out [][]byte
	for i := range n {
		out = append(out, []byte{byte('a' + i)})
	}
	return out
}

func TestLogOrigin(t *testing.T) {
	t.Parallel()
	for _, tenant := range []string{"acme", "größer", "a tenant+"} {
		got, err := counterfoil.LogOrigin(auditor, tenant)
		noError(t, err)
		if got != originOf(auditor, tenant) {
			t.Errorf("got %s", got)
		}
	}
	for name, c := range map[string][2]string{
		"no audience": {"", "acme"}, "no tenant": {auditor, ""}, "a space": {"my log", "acme"}, "a wide space": {"my\u3000log", "acme"},
		"a plus": {"my+log", "acme"}, "a line's end": {"my\nlog", "acme"}, "too long": {strings.Repeat("a", 480), "acme"},
	} {
		_, err := counterfoil.LogOrigin(c[0], c[1])
		if counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := counterfoil.LogOrigin(strings.Repeat("a", 479), "acme")
	noError(t, err)
}

// What we sign, the module for notes and another implementation of cosignatures verify, and what they sign, we do.
func TestCheckpoint_others(t *testing.T) {
	t.Parallel()
	x := newTree(t, letters(5)...)
	c, err := x.checkpoint(5).Cosign(t.Context(), witnessKey(t), now())
	noError(t, err)
	if c.Size() != 5 || c.Root() != x.root(5) || c.Origin() != originOf(auditor, "acme") {
		t.Errorf("got %d %x %s", c.Size(), c.Root(), c.Origin())
	}
	vkey, err := note.NewEd25519VerifierKey(c.Origin(), rawPublic(t, checkpointKey(t).Public()))
	noError(t, err)
	log, err := note.NewVerifier(vkey)
	noError(t, err)
	witness, err := torchwood.NewCosignatureSigner("another.example.test/w", ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32)))
	noError(t, err)
	ours, err := torchwood.NewCosignatureSigner(watcher, ed25519.NewKeyFromSeed(seedOf(counterfoil.RoleWitness, watcher)))
	noError(t, err)
	open, err := note.Open(c.Note(), note.VerifierList(log, ours.Verifier()))
	noError(t, err)
	if len(open.Sigs) != 2 || len(open.UnverifiedSigs) != 0 {
		t.Errorf("%d of the signatures fit", len(open.Sigs))
	}
	signed, err := note.Sign(open, witness)
	noError(t, err)
	theirs, err := counterfoil.ParseCheckpoint(signed)
	noError(t, err)
	key, err := counterfoil.NewPrivateKey(bytes.Repeat([]byte{7}, 32), counterfoil.KeyParams{
		Role: counterfoil.RoleWitness, Owner: "another.example.test/w", Custody: counterfoil.CustodyHolder, Tenants: []string{"acme"}, NotBefore: now(),
	})
	noError(t, err)
	ring := mustRing(t, checkpointKey(t), witnessKey(t), key)
	noError(t, theirs.Verify(ring, auditor, "acme", now()))
	got, err := theirs.Cosignatures(ring, "acme")
	noError(t, err)
	if len(got) != 2 || got[0].Witness != watcher || !got[0].At.Equal(now()) || got[1].Witness != "another.example.test/w" || time.Since(got[1].At) > time.Hour {
		t.Errorf("got %+v", got)
	}
}

func TestParseCheckpoint_rejects(t *testing.T) {
	t.Parallel()
	c, err := newTree(t, letters(5)...).checkpoint(5).Cosign(t.Context(), witnessKey(t), now())
	noError(t, err)
	whole := string(c.Note())
	text, sigs, _ := strings.Cut(whole, "\n\n")
	lines := strings.Split(text, "\n")
	first, second, _ := strings.Cut(sigs, "\n")
	root := lines[2]
	join := func(text, sigs string) string { return text + "\n\n" + sigs }
	with := func(i int, line string) string {
		l := slices.Clone(lines)
		l[i] = line
		return join(strings.Join(l, "\n"), sigs)
	}
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString("— w" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + " " + base64.StdEncoding.EncodeToString([]byte{1, 2, 3, 4, 5}) + "\n")
		}
		return join(text, b.String())
	}
	for name, note := range map[string]string{
		"nothing": "", "no signatures": text + "\n\n", "no empty line": text + "\n" + sigs, "no line's end": strings.TrimSuffix(whole, "\n"),
		"an extension": join(text+"\nmore", sigs), "two lines": join(lines[0]+"\n"+lines[1], sigs), "no lines": join("", sigs),
		"no origin": with(0, ""), "an origin with a space": with(0, "a b"), "an origin with a plus": with(0, "a+b"),
		"an origin with a hidden character": with(0, "a\u200bb"), "an origin with a control character": with(0, "a\x01b"),
		"no size": with(1, ""), "size zero": with(1, "0"), "a size below zero": with(1, "-5"), "a size with a sign": with(1, "+5"),
		"a size with a zero": with(1, "05"), "a size in hex": with(1, "0x5"), "a size too large": with(1, "9007199254740992"),
		"a size of twenty digits": with(1, "99999999999999999999"), "no root": with(2, ""), "a root that is no base64": with(2, "!"),
		"a short root": with(2, base64.StdEncoding.EncodeToString(make([]byte, 31))), "a long root": with(2, base64.StdEncoding.EncodeToString(make([]byte, 33))),
		"a root with stray bits": with(2, root[:42]+string(root[42]+1)+"="), "a root in the other alphabet": with(2, strings.Repeat("-", 43)+"="),
		"a root without padding": with(2, strings.TrimSuffix(root, "=")), "a space after the size": with(1, "5 "), "crlf": strings.ReplaceAll(whole, "\n", "\r\n"),
		"a hyphen for the dash": join(text, strings.ReplaceAll(sigs, "—", "-")), "a signature twice": join(text, first+"\n"+first+"\n"),
		"two signatures of one key": join(text, first+"\n"+first[:len(first)-6]+"AAAA\n"), "a name with a plus": join(text, "— a+b AAAAAAA=\n"),
		"a name with a hidden character": join(text, "— a\u200bb AAAAAAA=\n"), "no name": join(text, "—  AAAAAAA=\n"), "a short signature": join(text, "— a AAAAAA==\n"),
		"a signature with stray bits": join(text, "— a AAAAAAB=\n"), "33 signatures": many(33), "text after the signatures": whole + "more\n",
		"an empty line after the signatures": whole + "\n", "not UTF-8": with(0, "a\xffb"), "too large": whole + strings.Repeat("a", 65_536),
		"a line's end in a signature": join(text, second[:len(second)-9]+"\n"+second[len(second)-9:]),
	} {
		got, err := counterfoil.ParseCheckpoint([]byte(note))
		if counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput || got != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, note := range map[string]string{"it": whole, "32 signatures": many(32), "the largest size": with(1, "9007199254740991")} {
		got, err := counterfoil.ParseCheckpoint([]byte(note))
		noError(t, err)
		if string(got.Note()) != note {
			t.Errorf("%s: it became %q", name, got.Note())
		}
	}
}

func TestCheckpoint_Verify(t *testing.T) {
	t.Parallel()
	x := newTree(t, letters(5)...)
	c := x.checkpoint(5)
	ring := mustRing(t, checkpointKey(t), witnessKey(t))
	noError(t, c.Verify(ring, auditor, "acme", now()))
	changed := func(change func(*counterfoil.PublicKey)) *counterfoil.KeyRing {
		k := checkpointKey(t).Public()
		change(&k)
		return mustPublicRing(t, k)
	}
	forged := func(old, with string) *counterfoil.Checkpoint {
		got, err := counterfoil.ParseCheckpoint(bytes.Replace(c.Note(), []byte(old), []byte(with), 1))
		noError(t, err)
		return got
	}
	// The same key, as a key of receipts: a receipt's signature is none of a checkpoint, whatever it says.
	wrong, err := counterfoil.NewPrivateKey(seedOf(counterfoil.RoleCheckpoint, "gateway"), counterfoil.KeyParams{
		Role: counterfoil.RoleReceipt, Owner: "gateway", Custody: counterfoil.CustodyGateway, Tenants: []string{"acme"}, NotBefore: now(),
	})
	noError(t, err)
	for _, r := range []struct {
		name             string
		c                *counterfoil.Checkpoint
		ring             *counterfoil.KeyRing
		audience, tenant string
		code             counterfoil.Code
	}{
		{"no ring", c, nil, auditor, "acme", counterfoil.CodeSignatureInvalid},
		{"an empty ring", c, mustRing(t), auditor, "acme", counterfoil.CodeSignatureInvalid},
		{"a key of another role", c, mustRing(t, wrong), auditor, "acme", counterfoil.CodeSignatureInvalid},
		{"another tenant's log", c, ring, auditor, "other", counterfoil.CodeIntegrityFailed},
		{"another audience's log", c, ring, "other.example.test", "acme", counterfoil.CodeIntegrityFailed},
		{"no audience", c, ring, "", "acme", counterfoil.CodeInvalidInput},
		{"another size", forged("\n5\n", "\n6\n"), ring, auditor, "acme", counterfoil.CodeSignatureInvalid},
		{"another root", forged(base64.StdEncoding.EncodeToString(rootBytes(c)), base64.StdEncoding.EncodeToString(make([]byte, 32))), ring, auditor, "acme", counterfoil.CodeSignatureInvalid},
		{"another log's name", forged("— "+auditor, "— x"+auditor), ring, auditor, "acme", counterfoil.CodeSignatureInvalid},
		{"a key of another tenant", c, changed(func(k *counterfoil.PublicKey) { k.Tenants = []string{"other"} }), auditor, "acme", counterfoil.CodeSignatureInvalid},
		{"a key that had ended", c, changed(func(k *counterfoil.PublicKey) { k.NotAfter = now() }), auditor, "acme", counterfoil.CodeSignatureInvalid},
		{"a key that began later", c, changed(func(k *counterfoil.PublicKey) { k.NotBefore = tomorrow() }), auditor, "acme", ""},
		{"a key that was superseded before it began", c, changed(func(k *counterfoil.PublicKey) {
			k.NotBefore, k.Revoked = tomorrow(), &counterfoil.Revocation{At: tomorrow(), Why: counterfoil.RevokedSuperseded}
		}), auditor, "acme", counterfoil.CodeRevoked},
		{"a key that was superseded", c, changed(func(k *counterfoil.PublicKey) {
			k.Revoked = &counterfoil.Revocation{At: now(), Why: counterfoil.RevokedSuperseded}
		}), auditor, "acme", counterfoil.CodeRevoked},
		{"a key that was compromised later", c, changed(func(k *counterfoil.PublicKey) {
			k.Revoked = &counterfoil.Revocation{At: tomorrow(), Why: counterfoil.RevokedCompromised}
		}), auditor, "acme", counterfoil.CodeRevoked},
	} {
		if err := r.c.Verify(r.ring, r.audience, r.tenant, now()); counterfoil.CodeOf(err) != r.code {
			t.Errorf("%s: got %v", r.name, err)
		}
	}
}

func rootBytes(c *counterfoil.Checkpoint) []byte { r := c.Root(); return r[:] }

// seedOf is the seed of counterfoiltest's keys, so that one key can be had in two roles.
func seedOf(role counterfoil.Role, owner string) []byte {
	sum := sha256.Sum256([]byte("counterfoiltest\n" + string(role) + "\n" + owner))
	return sum[:]
}

func TestSignCheckpoint_refuses(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other := counterfoiltest.Key(t, counterfoil.RoleCheckpoint, "gateway", "other")
	for _, r := range []struct {
		name     string
		ctx      context.Context
		audience string
		size     int64
		key      counterfoil.Signer
		code     counterfoil.Code
	}{
		{"no signer", t.Context(), auditor, 5, nil, counterfoil.CodeInvalidInput},
		{"a key of receipts", t.Context(), auditor, 5, receiptKey(t), counterfoil.CodeSignatureInvalid},
		{"a witness's key", t.Context(), auditor, 5, witnessKey(t), counterfoil.CodeSignatureInvalid},
		{"a key of another tenant", t.Context(), auditor, 5, other, counterfoil.CodeSignatureInvalid},
		{"a signer that signs something else", t.Context(), auditor, 5, &liar{checkpointKey(t)}, counterfoil.CodeUnavailable},
		{"a signer without a key", t.Context(), auditor, 5, &liar{new(counterfoil.PrivateKey)}, counterfoil.CodeSignatureInvalid},
		{"cancelled", ctx, auditor, 5, checkpointKey(t), counterfoil.CodeAborted},
		{"an audience that is no name", t.Context(), "my log", 5, checkpointKey(t), counterfoil.CodeInvalidInput},
		{"no leaves", t.Context(), auditor, 0, checkpointKey(t), counterfoil.CodeInvalidInput},
		{"too many leaves", t.Context(), auditor, 1 << 53, checkpointKey(t), counterfoil.CodeInvalidInput},
	} {
		c, err := counterfoil.SignCheckpoint(r.ctx, r.audience, "acme", r.size, [32]byte{1}, r.key)
		if counterfoil.CodeOf(err) != r.code || c != nil {
			t.Errorf("%s: got %v", r.name, err)
		}
	}
	c := newTree(t, letters(5)...).checkpoint(5)
	for name, r := range map[string]struct {
		key  counterfoil.Signer
		now  time.Time
		code counterfoil.Code
	}{
		"no signer":      {nil, now(), counterfoil.CodeInvalidInput},
		"the log's key":  {checkpointKey(t), now(), counterfoil.CodeSignatureInvalid},
		"before the era": {witnessKey(t), time.Unix(-1, 0), counterfoil.CodeClock},
		"something else": {&liar{witnessKey(t)}, now(), counterfoil.CodeUnavailable},
	} {
		if got, err := c.Cosign(t.Context(), r.key, r.now); counterfoil.CodeOf(err) != r.code || got != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
	twice, err := c.Cosign(t.Context(), witnessKey(t), now())
	noError(t, err)
	_, err = twice.Cosign(t.Context(), witnessKey(t), tomorrow())
	wantCode(t, err, counterfoil.CodeInvalidInput)
}

// A liar signs what it was not asked to.
type liar struct{ *counterfoil.PrivateKey }

func (l *liar) Sign(context.Context, counterfoil.Message) ([]byte, error) {
	return make([]byte, 64), nil
}

func TestCheckpoint_Cosignatures(t *testing.T) {
	t.Parallel()
	plain := newTree(t, letters(5)...).checkpoint(5)
	c, err := plain.Cosign(t.Context(), witnessKey(t), now())
	noError(t, err)
	// A witness answers with its line alone.
	line := bytes.TrimPrefix(c.Note(), plain.Note())
	again, err := plain.AddCosignatures(line)
	noError(t, err)
	if !bytes.Equal(again.Note(), c.Note()) {
		t.Error("the line became another")
	}
	for _, bad := range []string{"", "x\n", "\n", string(line) + string(line)} {
		if got, err := plain.AddCosignatures([]byte(bad)); bad != "" && counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput || bad == "" && (err != nil || !bytes.Equal(got.Note(), plain.Note())) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	ring := func(change func(*counterfoil.PublicKey)) *counterfoil.KeyRing {
		k := witnessKey(t).Public()
		change(&k)
		return mustPublicRing(t, k)
	}
	stamped := func(seconds uint64, size int) *counterfoil.Checkpoint {
		raw, err := base64.StdEncoding.DecodeString(string(line[bytes.LastIndexByte(line, ' ')+1 : len(line)-1]))
		noError(t, err)
		binary.BigEndian.PutUint64(raw[4:], seconds)
		raw = append(raw, 0)[:size]
		got, err := plain.AddCosignatures([]byte("— " + watcher + " " + base64.StdEncoding.EncodeToString(raw) + "\n"))
		noError(t, err)
		return got
	}
	seconds := uint64(now().Unix())
	want := []counterfoil.Cosignature{{Witness: watcher, Key: witnessKey(t).Public().ID, At: now()}}
	same := func(*counterfoil.PublicKey) {}
	for _, r := range []struct {
		name string
		c    *counterfoil.Checkpoint
		ring *counterfoil.KeyRing
		want []counterfoil.Cosignature
		code counterfoil.Code
	}{
		{"it", c, ring(same), want, ""},
		{"none", plain, ring(same), nil, ""},
		{"no ring", c, nil, nil, counterfoil.CodeSignatureInvalid},
		{"a ring without witnesses", c, mustRing(t, checkpointKey(t)), nil, ""},
		{"another name for the key", c, mustRing(t, namedWitness(t, "another.example.test")), nil, ""},
		{"another tenant's witness", c, ring(func(k *counterfoil.PublicKey) { k.Tenants = []string{"other"} }), nil, ""},
		{"a key that had ended", c, ring(func(k *counterfoil.PublicKey) { k.NotAfter = now() }), nil, ""},
		{"a key that had not begun", c, ring(func(k *counterfoil.PublicKey) { k.NotBefore = now().Add(time.Millisecond) }), nil, ""},
		{"a key that was compromised since", c, ring(func(k *counterfoil.PublicKey) {
			k.Revoked = &counterfoil.Revocation{At: tomorrow(), Why: counterfoil.RevokedCompromised}
		}), nil, ""},
		{"another time", stamped(seconds-1, 76), ring(same), nil, counterfoil.CodeSignatureInvalid},
		{"a time beyond what there is", stamped(math.MaxUint64, 76), ring(same), nil, counterfoil.CodeSignatureInvalid},
		{"a year beyond this era", stamped(math.MaxInt64, 76), ring(same), nil, counterfoil.CodeSignatureInvalid},
		{"too short", stamped(seconds, 75), ring(same), nil, counterfoil.CodeSignatureInvalid},
		{"too long", stamped(seconds, 77), ring(same), nil, counterfoil.CodeSignatureInvalid},
	} {
		got, err := r.c.Cosignatures(r.ring, "acme")
		if counterfoil.CodeOf(err) != r.code || cmp.Diff(r.want, got) != "" {
			t.Errorf("%s: got %v, %v", r.name, got, err)
		}
	}
}

// namedWitness is the witness's key under another name.
func namedWitness(t testing.TB, name string) *counterfoil.PrivateKey {
	t.Helper()
	k, err := counterfoil.NewPrivateKey(seedOf(counterfoil.RoleWitness, watcher), counterfoil.KeyParams{
		Role: counterfoil.RoleWitness, Owner: name, Custody: counterfoil.CustodyHolder, Tenants: []string{"acme"}, NotBefore: now(),
	})
	noError(t, err)
	return k
}

// Nothing that a key of a log or witness signs is a document, and nothing that signs documents is theirs.
func TestCheckpoint_keepsKeysApart(t *testing.T) {
	t.Parallel()
	for _, role := range []counterfoil.Role{counterfoil.RoleCheckpoint, counterfoil.RoleWitness} {
		p := keyParams()
		p.Role, p.Owner = role, "w"
		if _, err := counterfoil.NewES256PrivateKey(bytes.Repeat([]byte{1}, 32), p); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("a key on P-256 of role %s: %v", role, err)
		}
		_, err := rfcKey(t, p).Sign(t.Context(), counterfoil.ForgeMessage(counterfoil.RoleReceipt, "x", nil))
		wantCode(t, err, counterfoil.CodeSignatureInvalid)
	}
	for _, name := range []string{"my witness", "a+b"} {
		p := keyParams()
		p.Role, p.Owner = counterfoil.RoleWitness, name
		if _, err := counterfoil.NewPrivateKey(make([]byte, 32), p); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("a witness called %q: %v", name, err)
		}
	}
}

// Every leaf of every tree, and every smaller tree, is proven; with another leaf, place, tree or path, nothing is.
func TestProofs(t *testing.T) {
	t.Parallel()
	const most = 9
	leaves := letters(most)
	x := newTree(t, leaves...)
	for size := int64(1); size <= most; size++ {
		c := x.checkpoint(size)
		for i := range size {
			in := x.inclusion(size, i, leaves[i])
			noError(t, in.Verify(c))
			for name, change := range map[string]func(*counterfoil.Inclusion){
				"another leaf":   func(in *counterfoil.Inclusion) { in.Event = []byte("z") },
				"another place":  func(in *counterfoil.Inclusion) { in.Index = (in.Index + 1) % max(2, size) },
				"below zero":     func(in *counterfoil.Inclusion) { in.Index = -1 },
				"beyond the end": func(in *counterfoil.Inclusion) { in.Index = size },
				"a longer path":  func(in *counterfoil.Inclusion) { in.Path = append(slices.Clone(in.Path), [32]byte{}) },
				"a shorter path": func(in *counterfoil.Inclusion) {
					if len(in.Path) == 0 {
						in.Event = nil
						return
					}
					in.Path = in.Path[:len(in.Path)-1]
				},
			} {
				bad := in
				change(&bad)
				if err := bad.Verify(c); counterfoil.CodeOf(err) != counterfoil.CodeIntegrityFailed {
					t.Errorf("size %d, leaf %d, %s: %v", size, i, name, err)
				}
			}
			if size < most {
				if err := in.Verify(x.checkpoint(size + 1)); counterfoil.CodeOf(err) != counterfoil.CodeIntegrityFailed {
					t.Errorf("size %d, leaf %d in the next tree: %v", size, i, err)
				}
			}
		}
		for older := int64(1); older <= size; older++ {
			p, err := tlog.ProveTree(size, older, x)
			noError(t, err)
			noError(t, counterfoil.CheckConsistency(x.checkpoint(older), c, path(p)))
			forked := newTree(t, append(letters(int(older)-1), []byte("z"))...).checkpoint(older)
			wantCode(t, counterfoil.CheckConsistency(forked, c, path(p)), counterfoil.CodeIntegrityFailed)
			wantCode(t, counterfoil.CheckConsistency(x.checkpoint(older), c, append(path(p), [32]byte{1})), counterfoil.CodeIntegrityFailed)
			if older < size {
				wantCode(t, counterfoil.CheckConsistency(c, x.checkpoint(older), path(p)), counterfoil.CodeIntegrityFailed)
			}
		}
	}
	other, err := counterfoil.SignCheckpoint(t.Context(), auditor, "other", 1, x.root(1), counterfoiltest.Key(t, counterfoil.RoleCheckpoint, "gateway", "other"))
	noError(t, err)
	wantCode(t, counterfoil.CheckConsistency(other, x.checkpoint(1), nil), counterfoil.CodeIntegrityFailed)
	if want := sha256.Sum256([]byte("\x00leaf")); counterfoil.LeafHash([]byte("leaf")) != want {
		t.Error("the leaf's hash is not that of RFC 6962")
	}
}

func TestEvent_Late(t *testing.T) {
	t.Parallel()
	names := counterfoiltest.Pseudonyms(t)
	for _, phase := range counterfoil.Phases() {
		e, err := counterfoil.NewEvent(phase, names, counterfoil.EventParams{Tenant: "acme", Audience: auditor, ExecutionID: "x", Rows: 3})
		noError(t, err)
		late := e.Late()
		sealed := late.Seal(1, now())
		if phase != counterfoil.PhaseCompleted {
			if sealed != nil || late.Phase() != "" {
				t.Errorf("%s became %s", phase, sealed)
			}
			continue
		}
		want := bytes.Replace(e.Seal(1, now()), []byte(`"completed"`), []byte(`"late-outcome"`), 1)
		if late.Phase() != counterfoil.PhaseLate || !bytes.Equal(sealed, want) {
			t.Errorf("got %s", sealed)
		}
	}
}
