package credential_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

func TestKeys_principal(t *testing.T) {
	t.Parallel()
	r := setup(t)
	m := r.mint(t)
	text := m.Secret.Reveal()
	if !strings.HasPrefix(text, "cfk_") || len(text) != 47 {
		t.Fatalf("the text has %d characters", len(text))
	}
	for _, at := range []*replica{r, r, r.again(t)} { // from the store, from memory, and elsewhere
		p, err := at.keys.Principal(t.Context(), text)
		must(t, err)
		want := &identity.Principal{
			Tenant: acme, Subject: "bot-of-ada", Kind: identity.KindAgent, Owner: "ada", Scopes: scopes("tools:read"), Credential: m.Key.ID,
			ExpiresAt: storetest.Start().Add(time.Hour),
		}
		if d := cmp.Diff(want, p, cmp.AllowUnexported(identity.Scopes{})); d != "" {
			t.Fatal(d)
		}
	}
}

// The text of a key is in the answer to its maker, and nowhere else.
func TestKeys_textIsNowhere(t *testing.T) {
	t.Parallel()
	r := setup(t)
	m := r.mint(t)
	text := m.Secret.Reveal()
	must(t, second(r.keys.Principal(t.Context(), text)))
	list, err := r.keys.List(t.Context(), person("ada", "keys:read"), "", 10)
	must(t, err)
	printed := fmt.Sprintf("%v %+v %#v %s %q %d", m, *m, *m, m.Secret, m.Secret, m.Secret) + fmt.Sprint(list)
	slog.New(slog.NewTextHandler(r.log, nil)).LogAttrs(t.Context(), slog.LevelInfo, "x", slog.Any("minted", m), slog.Any("secret", m.Secret))
	must(t, r.store.Close())
	db, err := os.ReadFile(r.path)
	must(t, err)
	for where, what := range map[string]string{"print": printed, "log": r.log.String(), "database": string(db)} {
		if strings.Contains(what, text[4:]) {
			t.Fatalf("it is in the %s", where)
		}
	}
	if _, err := m.Secret.MarshalText(); err == nil {
		t.Fatal("it is written out")
	}
}

// A key is good up to the millisecond of its end, and then gone, whether it is remembered or not.
func TestKeys_expiry(t *testing.T) {
	t.Parallel()
	r := setup(t)
	m := r.mint(t)
	fresh := r.again(t)
	r.clock.Move(time.Hour - time.Millisecond)
	must(t, second(r.keys.Principal(t.Context(), m.Secret.Reveal())))
	r.clock.Move(time.Millisecond)
	for range 2 {
		wantRefused(t, second(r.keys.Principal(t.Context(), m.Secret.Reveal())), "key")
	}
	if _, err := r.store.Key(t.Context(), acme, m.Key.ID); !errors.Is(err, credential.ErrNotFound) {
		t.Fatalf("it is kept: %v", err)
	}
	wantRefused(t, second(fresh.keys.Principal(t.Context(), m.Secret.Reveal())), "key")
}

func TestKeys_never(t *testing.T) {
	t.Parallel()
	r := setup(t)
	m, err := r.keys.Mint(t.Context(), person("ada", "keys:write"), credential.Mint{Subject: "bot", Kind: identity.KindService, Life: credential.Lifetime{Never: true}})
	must(t, err)
	r.clock.Move(100 * 365 * 24 * time.Hour)
	p, err := r.keys.Principal(t.Context(), m.Secret.Reveal())
	must(t, err)
	if !p.ExpiresAt.IsZero() || len(p.Scopes.List()) != 0 {
		t.Fatalf("%+v", p)
	}
}

// Whatever a key is not, the answer is one.
func TestKeys_refuses(t *testing.T) {
	t.Parallel()
	r := setup(t)
	good := r.mint(t).Secret.Reveal()
	other := "A"
	if good[10] == 'A' {
		other = "B"
	}
	for name, text := range map[string]string{
		"nothing": "", "one": "c", "the prefix": "cfk_", "31 bytes": "cfk_" + strings.Repeat("A", 42), "33 bytes": "cfk_" + strings.Repeat("A", 44),
		"8192": strings.Repeat("A", 8192), "unknown": "cfk_" + strings.Repeat("A", 43), "another prefix": "cfr_" + good[4:], "no prefix": good[4:],
		"upper case": "CFK_" + good[4:], "a space": good + " ", "a break": good + "\n", "a break inside": good[:20] + "\n" + good[20:46], "padded": good + "=",
		"standard": "cfk_" + strings.Repeat("/", 43), "one character": good[:10] + other + good[11:], "a spelling": "cfk_" + strings.Repeat("A", 42) + "B",
		"bytes": "cfk_\x00\xff",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantRefused(t, second(r.keys.Principal(context.WithoutCancel(t.Context()), text)), "key")
		})
	}
}

func TestMint_rejects(t *testing.T) {
	t.Parallel()
	r := setup(t)
	agent := &identity.Principal{Tenant: acme, Subject: "bot", Kind: identity.KindAgent, Owner: "ada", Scopes: scopes("keys:write", "tools:read"), Credential: "key_1", ExpiresAt: storetest.Start().Add(time.Hour)}
	for name, c := range map[string]struct {
		by     *identity.Principal
		change func(*credential.Mint)
		want   counterfoil.Code
	}{
		"nobody":             {&identity.Principal{}, nil, counterfoil.CodePolicyDenied},
		"without the scope":  {person("ada", "tools:read", "keys:read"), nil, counterfoil.CodePolicyDenied},
		"no tenant":          {of("", person("ada", "keys:write")), nil, counterfoil.CodePolicyDenied},
		"no life":            {nil, func(m *credential.Mint) { m.Life = credential.Lifetime{} }, counterfoil.CodeInvalidInput},
		"a negative life":    {nil, func(m *credential.Mint) { m.Life.For = -time.Hour }, counterfoil.CodeInvalidInput},
		"a nanosecond":       {nil, func(m *credential.Mint) { m.Life.For = 1 }, counterfoil.CodeInvalidInput},
		"the longest":        {nil, func(m *credential.Mint) { m.Life.For = 1<<63 - 1 }, counterfoil.CodeInvalidInput},
		"never and for":      {nil, func(m *credential.Mint) { m.Life.Never = true }, counterfoil.CodeInvalidInput},
		"never and negative": {nil, func(m *credential.Mint) { m.Life = credential.Lifetime{For: -1, Never: true} }, counterfoil.CodeInvalidInput},
		"unknown scope":      {nil, func(m *credential.Mint) { m.Scopes = []string{"tools:fly"} }, counterfoil.CodeInvalidInput},
		"wildcard":           {nil, func(m *credential.Mint) { m.Scopes = []string{"*"} }, counterfoil.CodeInvalidInput},
		"another's scope":    {nil, func(m *credential.Mint) { m.Scopes = []string{"tools:execute"} }, counterfoil.CodePolicyDenied},
		"all of a noun":      {nil, func(m *credential.Mint) { m.Scopes = []string{"tools:*"} }, counterfoil.CodePolicyDenied},
		"administration":     {nil, func(m *credential.Mint) { m.Scopes = []string{"admin"} }, counterfoil.CodePolicyDenied},
		"the system":         {person("root", "admin"), func(m *credential.Mint) { m.Scopes = []string{"system:admin"} }, counterfoil.CodePolicyDenied},
		"an agent decides":   {person("root", "admin"), func(m *credential.Mint) { m.Scopes = []string{"approvals:decide"} }, counterfoil.CodeInvalidInput},
		"no subject":         {nil, func(m *credential.Mint) { m.Subject = "" }, counterfoil.CodeInvalidInput},
		"a slash":            {nil, func(m *credential.Mint) { m.Subject = "corp/ada" }, counterfoil.CodeInvalidInput},
		"hidden characters":  {nil, func(m *credential.Mint) { m.Subject = "bot\u200b" }, counterfoil.CodeInvalidInput},
		"no kind":            {nil, func(m *credential.Mint) { m.Kind = "" }, counterfoil.CodeInvalidInput},
		"another person":     {nil, func(m *credential.Mint) { m.Kind, m.Subject = identity.KindPerson, "bob" }, counterfoil.CodePolicyDenied},
		"a person's agent":   {agent, func(m *credential.Mint) { m.Kind, m.Subject = identity.KindPerson, "ada" }, counterfoil.CodePolicyDenied},
		"an agent's service": {agent, func(m *credential.Mint) { m.Kind = identity.KindService }, counterfoil.CodePolicyDenied},
		"outlives its maker": {agent, func(m *credential.Mint) { m.Life.For += time.Millisecond }, counterfoil.CodePolicyDenied},
		"never ends":         {agent, func(m *credential.Mint) { m.Life = credential.Lifetime{Never: true} }, counterfoil.CodePolicyDenied},
		"a long label":       {nil, func(m *credential.Mint) { m.Label = strings.Repeat("x", 129) }, counterfoil.CodeInvalidInput},
		"a label of lines":   {nil, func(m *credential.Mint) { m.Label = "a\nb" }, counterfoil.CodeInvalidInput},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			by := c.by
			if by == nil {
				by = person("ada", "keys:write", "tools:read")
			}
			m := credential.Mint{Subject: "bot", Kind: identity.KindAgent, Scopes: []string{"tools:read"}, Life: credential.Lifetime{For: time.Hour}}
			if c.change != nil {
				c.change(&m)
			}
			_, err := r.keys.Mint(context.WithoutCancel(t.Context()), by, m)
			wantCode(t, name, err, c.want)
		})
	}
	t.Cleanup(func() {
		keys, err := r.keys.List(context.Background(), person("root", "admin"), "", 10)
		if err != nil || len(keys) != 0 {
			t.Errorf("%d keys were made, %v", len(keys), err)
		}
	})
	if _, err := r.keys.Mint(t.Context(), nil, credential.Mint{}); counterfoil.CodeOf(err) != counterfoil.CodePolicyDenied {
		t.Fatal(err)
	}
}

// The rights that a maker passes on are theirs: an agent's key of the same life, a person's own.
func TestMint_admits(t *testing.T) {
	t.Parallel()
	r := setup(t)
	agent := &identity.Principal{Tenant: acme, Subject: "bot", Kind: identity.KindAgent, Owner: "ada", Scopes: scopes("keys:write", "tools:*"), Credential: "key_1", ExpiresAt: storetest.Start().Add(time.Hour)}
	life := credential.Lifetime{For: time.Hour}
	for name, c := range map[string]struct {
		by *identity.Principal
		m  credential.Mint
	}{
		"an agent":         {agent, credential.Mint{Subject: "helper", Kind: identity.KindAgent, Scopes: []string{"tools:read", "tools:*"}, Life: life}},
		"oneself":          {person("ada", "keys:write", "approvals:decide"), credential.Mint{Subject: "ada", Kind: identity.KindPerson, Scopes: []string{"approvals:decide"}, Life: life}},
		"an OIDC person":   {person("corp/ada", "keys:write"), credential.Mint{Subject: "corp/ada", Kind: identity.KindPerson, Life: life}},
		"an administrator": {person("root", "admin"), credential.Mint{Subject: "ci", Kind: identity.KindService, Scopes: []string{"admin", "tools:*"}, Life: life, Label: "the build"}},
	} {
		m, err := r.keys.Mint(t.Context(), c.by, c.m)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		p, err := r.keys.Principal(t.Context(), m.Secret.Reveal())
		if err != nil || p.Owner != c.by.Owner || p.Subject != c.m.Subject || p.Tenant != acme {
			t.Fatalf("%s: %+v, %v", name, p, err)
		}
	}
	// The name is its first owner's.
	_, err := r.keys.Mint(t.Context(), person("bob", "keys:write"), credential.Mint{Subject: "helper", Kind: identity.KindAgent, Life: life})
	if wantCode(t, "taken", err, counterfoil.CodePolicyDenied); !errors.Is(err, credential.ErrTaken) {
		t.Fatal(err)
	}
}

// Only a key's owner and the administrator of its tenant see and end it. For all others there is none.
func TestKeys_govern(t *testing.T) {
	t.Parallel()
	r := setup(t)
	for name, c := range map[string]struct {
		by   *identity.Principal
		sees int
		want error
	}{
		"the owner":             {person("ada", "keys:*"), 1, nil},
		"an administrator":      {person("root", "admin"), 1, nil},
		"another owner":         {person("bob", "keys:*"), 0, credential.ErrNotFound},
		"another tenant":        {of(umbrella, person("ada", "keys:*")), 0, credential.ErrNotFound},
		"its administrator":     {of(umbrella, person("root", "admin")), 0, credential.ErrNotFound},
		"a system's":            {of(umbrella, person("root", "admin", "system:admin")), 0, credential.ErrNotFound},
		"whoever has no scope":  {person("ada", "tools:*"), -1, counterfoil.CodePolicyDenied},
		"whoever has no tenant": {of("", person("root", "admin")), -1, counterfoil.CodePolicyDenied},
	} {
		m := r.mint(t)
		list, err := r.keys.List(t.Context(), c.by, "", 10)
		if n := len(list); err == nil && n != c.sees || c.sees < 0 && !errors.Is(err, c.want) {
			t.Fatalf("%s sees %d keys, %v", name, n, err)
		}
		if err := r.keys.Revoke(t.Context(), c.by, m.Key.ID); !errors.Is(err, c.want) {
			t.Fatalf("%s: %v", name, err)
		}
		_, err = r.keys.Principal(t.Context(), m.Secret.Reveal())
		if c.want == nil {
			wantRefused(t, err, "key")
			continue
		}
		must(t, err)
		must(t, r.keys.Revoke(t.Context(), person("ada", "keys:write"), m.Key.ID))
	}
}

// A key that was revoked is refused at once, by the other replica that remembers it, and after a restart.
func TestKeys_revoked(t *testing.T) {
	t.Parallel()
	r := setup(t)
	other := r.again(t)
	m := r.mint(t)
	for _, at := range []*replica{r, other} {
		must(t, second(at.keys.Principal(t.Context(), m.Secret.Reveal())))
	}
	must(t, r.keys.Revoke(t.Context(), person("ada", "keys:write"), m.Key.ID))
	for _, at := range []*replica{r, other, r.again(t)} {
		wantRefused(t, second(at.keys.Principal(t.Context(), m.Secret.Reveal())), "key")
	}
}

func TestKeys_rotate(t *testing.T) {
	t.Parallel()
	r := setup(t)
	ada := person("ada", "keys:*", "tools:read")
	old := r.mint(t)
	must(t, second(r.keys.Principal(t.Context(), old.Secret.Reveal())))
	life := credential.Lifetime{For: 2 * time.Hour}
	for name, c := range map[string]struct {
		by      *identity.Principal
		id      string
		life    credential.Lifetime
		overlap time.Duration
		want    error
	}{
		"another owner":     {person("bob", "admin"), old.Key.ID, life, 0, counterfoil.CodePolicyDenied},
		"nobody's":          {person("bob", "keys:*"), old.Key.ID, life, 0, credential.ErrNotFound},
		"another tenant":    {of(umbrella, ada), old.Key.ID, life, 0, credential.ErrNotFound},
		"no key":            {ada, "key_x", life, 0, credential.ErrNotFound},
		"no life":           {ada, old.Key.ID, credential.Lifetime{}, 0, counterfoil.CodeInvalidInput},
		"back in time":      {ada, old.Key.ID, life, -1, counterfoil.CodeInvalidInput},
		"for years":         {ada, old.Key.ID, life, 365 * 24 * time.Hour, counterfoil.CodeInvalidInput},
		"a right that left": {person("ada", "keys:*"), old.Key.ID, life, 0, counterfoil.CodePolicyDenied},
		"no scope":          {person("ada", "keys:read"), old.Key.ID, life, 0, counterfoil.CodePolicyDenied},
	} {
		if _, err := r.keys.Rotate(t.Context(), c.by, c.id, c.life, c.overlap); !errors.Is(err, c.want) {
			t.Fatalf("%s: %v", name, err)
		}
	}
	next, err := r.keys.Rotate(t.Context(), ada, old.Key.ID, life, 10*time.Minute)
	must(t, err)
	if next.Key.Subject != old.Key.Subject || next.Key.ID == old.Key.ID || !next.Key.Expires.Equal(storetest.Start().Add(2*time.Hour)) {
		t.Fatalf("%+v", next.Key)
	}
	_, err = r.keys.Rotate(t.Context(), ada, old.Key.ID, life, 0)
	if wantCode(t, "twice", err, counterfoil.CodePolicyDenied); !errors.Is(err, credential.ErrChanged) {
		t.Fatal(err)
	}
	r.clock.Move(10*time.Minute - time.Millisecond)
	for _, m := range []*credential.Minted{old, next} {
		must(t, second(r.keys.Principal(t.Context(), m.Secret.Reveal())))
	}
	r.clock.Move(time.Millisecond)
	wantRefused(t, second(r.keys.Principal(t.Context(), old.Secret.Reveal())), "key")
	must(t, second(r.keys.Principal(t.Context(), next.Secret.Reveal())))
	// Without an overlap the old one ends at once.
	last, err := r.keys.Rotate(t.Context(), ada, next.Key.ID, life, 0)
	must(t, err)
	wantRefused(t, second(r.keys.Principal(t.Context(), next.Secret.Reveal())), "key")
	must(t, second(r.keys.Principal(t.Context(), last.Secret.Reveal())))
}

// A key has no more rights than its owner has by now.
func TestKeys_owner(t *testing.T) {
	t.Parallel()
	r := setup(t)
	root := person("root", "admin")
	r.user(t, "ada", "keys:*", "tools:*")
	by := person("ada", "keys:*", "tools:*")
	m, err := r.keys.Mint(t.Context(), by, credential.Mint{
		Subject: "bot", Kind: identity.KindAgent, Scopes: []string{"tools:*", "tools:read", "keys:read"}, Life: credential.Lifetime{For: time.Hour},
	})
	must(t, err)
	rights := func() []string {
		t.Helper()
		p, err := r.keys.Principal(t.Context(), m.Secret.Reveal())
		must(t, err)
		return p.Scopes.List()
	}
	if d := cmp.Diff([]string{"keys:read", "tools:*", "tools:read"}, rights()); d != "" {
		t.Fatal(d)
	}
	must(t, second(r.users.SetRights(t.Context(), root, "ada", []string{"tools:read"}, nil)))
	if d := cmp.Diff([]string{"tools:read"}, rights()); d != "" {
		t.Fatal(d)
	}
	must(t, second(r.users.SetDisabled(t.Context(), root, "ada", true)))
	wantRefused(t, second(r.keys.Principal(t.Context(), m.Secret.Reveal())), "owner")
	must(t, second(r.users.SetDisabled(t.Context(), root, "ada", false)))
	if d := cmp.Diff([]string{"tools:read"}, rights()); d != "" {
		t.Fatal(d)
	}
}

// Whoever revokes or replaces a key finds it refused at once, however far behind what is known of the epoch is.
func TestKeys_revokedAtOnce(t *testing.T) {
	t.Parallel()
	r := setup(t)
	keys, err := credential.NewKeys(credential.KeysOptions{
		Store: r.store, Epoch: func(context.Context, string) (int64, error) { return 1, nil }, Remembered: 10, Recorder: r.recorder(), Logger: r.logger(),
	})
	must(t, err)
	ada := person("ada", "keys:*", "tools:*")
	for name, end := range map[string]func(id string) error{
		"revoked": func(id string) error { return keys.Revoke(t.Context(), ada, id) },
		"replaced": func(id string) error {
			return second(keys.Rotate(t.Context(), ada, id, credential.Lifetime{For: time.Hour}, 0))
		},
	} {
		m := r.mint(t)
		must(t, second(keys.Principal(t.Context(), m.Secret.Reveal())))
		must(t, end(m.Key.ID))
		_, err := keys.Principal(t.Context(), m.Secret.Reveal())
		if identity.ReasonOf(err) != identity.ReasonInvalid {
			t.Fatalf("%s: %v", name, err)
		}
	}
}
