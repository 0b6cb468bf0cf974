package credential_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/credential"
)

func stored(params, salt, sum string) string {
	return "$argon2id$v=19$" + params + "$" + salt + "$" + sum
}

func TestParseStored_rejects(t *testing.T) {
	t.Parallel()
	salt, sum := strings.Repeat("A", 22), strings.Repeat("A", 43)
	good := stored("m=8192,t=1,p=1", salt, sum)
	if again, ok := credential.ParseStored(good); !ok || again != good {
		t.Fatalf("%q, %v", again, ok)
	}
	for name, text := range map[string]string{
		"nothing": "", "PBKDF2": "pbkdf2_sha256$100000$salt$hash", "SHA-256": strings.Repeat("a", 64), "bcrypt": "$2b$10$" + strings.Repeat("a", 53),
		"argon2i": strings.Replace(good, "argon2id", "argon2i", 1), "another version": strings.Replace(good, "v=19", "v=16", 1),
		"all memory": stored("m=4294967295,t=1,p=1", salt, sum), "little memory": stored("m=8,t=1,p=1", salt, sum), "no passes": stored("m=8192,t=0,p=1", salt, sum),
		"many passes": stored("m=8192,t=4294967295,p=1", salt, sum), "no threads": stored("m=8192,t=1,p=0", salt, sum), "threads that wrap": stored("m=8192,t=1,p=257", salt, sum),
		"negative": stored("m=-8192,t=1,p=1", salt, sum), "a plus": stored("m=+8192,t=1,p=1", salt, sum), "a zero": stored("m=08192,t=1,p=1", salt, sum),
		"too few": stored("m=8192,t=1", salt, sum), "another order": stored("t=1,m=8192,p=1", salt, sum), "no names": stored("8192,1,1", salt, sum),
		"a short salt": stored("m=8192,t=1,p=1", salt[:11], sum), "no salt": stored("m=8192,t=1,p=1", "", sum), "no sum": stored("m=8192,t=1,p=1", salt, ""),
		"a short sum": stored("m=8192,t=1,p=1", salt, sum[:22]), "a spelling": stored("m=8192,t=1,p=1", salt, sum[:42]+"B"), "more": good + "$", "before": "x" + good,
		"long": good + strings.Repeat("A", 1000), "a break": stored("m=8192,t=1,p=1", salt[:21]+"\n", sum),
	} {
		if _, ok := credential.ParseStored(text); ok {
			t.Errorf("%s: read", name)
		}
	}
}

func FuzzParseStored(f *testing.F) {
	f.Add(stored("m=8192,t=1,p=1", strings.Repeat("A", 22), strings.Repeat("A", 43)))
	f.Add(stored("m=8192,t=1,p=257", strings.Repeat("A", 22), strings.Repeat("A", 43)))
	f.Fuzz(func(t *testing.T, text string) {
		if again, ok := credential.ParseStored(text); ok && again != text {
			t.Fatalf("%q became %q", text, again)
		}
	})
}

func TestNewHasher_rejects(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*credential.HasherOptions){
		"little memory": func(o *credential.HasherOptions) { o.Cost.Memory = 1024 }, "all memory": func(o *credential.HasherOptions) { o.Cost.Memory = 1 << 30 },
		"no passes": func(o *credential.HasherOptions) { o.Cost.Time = 0 }, "no threads": func(o *credential.HasherOptions) { o.Cost.Threads = 0 },
		"nobody at work": func(o *credential.HasherOptions) { o.AtOnce = 0 }, "less than nobody": func(o *credential.HasherOptions) { o.Waiting = -1 },
		"no randomness": func(o *credential.HasherOptions) { o.Rand = nil },
	} {
		o := cheap()
		change(&o)
		if _, err := credential.NewHasher(o); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s: %v", name, err)
		}
	}
	o := credential.HasherOptions{Cost: credential.DefaultCost(), AtOnce: 1, Waiting: 0, Rand: rand.Reader}
	must(t, second(credential.NewHasher(o)))
}

// Whoever comes when all places are taken is told so, and whoever goes away while waiting gives theirs back.
func TestHasher_busy(t *testing.T) {
	t.Parallel()
	r := setup(t)
	free := r.hasher.Occupy()
	_, err := r.tokens.Password(t.Context(), credential.Login{Tenant: acme, User: "root", Password: credential.NewSecret(pass), From: here()})
	wantCode(t, "all places taken", err, counterfoil.CodeUnavailable)
	free()
	r.login(t, acme, "root")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.tokens.Password(ctx, credential.Login{Tenant: acme, User: "root", Password: credential.NewSecret(pass), From: here()}); err == nil {
		t.Fatal("a login that was given up")
	}
	r.login(t, acme, "root")
}
