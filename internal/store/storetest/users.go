package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/identity"
)

// passwordHash is one of the form that users have, of no password.
func passwordHash(of string) string {
	return "$argon2id$v=19$m=8192,t=1,p=1$" + strings.Repeat("A", 21) + of + "$" + strings.Repeat("A", 43)
}

func userRow(tenant, name string) credential.UserRow {
	return credential.UserRow{Password: passwordHash("A"), Version: 1, User: credential.User{
		Tenant: tenant, Name: name, Scopes: []string{"approvals:decide", "tools:read"}, Groups: []string{"finance", "the board"},
		Created: Start(), Changed: Start(),
	}}
}

// A user's name is taken once within a tenant, and changes are made by whoever comes first.
func testUsers(t *testing.T, b Backend) {
	s, other, clock := both(t, b)
	ctx := t.Context()
	wantErr(t, "no tenant", s.AddUser(ctx, userRow("nobody", "ada"), false, governed(t, "nobody")), identity.ErrNoTenant)
	wantErr(t, "not there", second(s.User(ctx, Tenant, "ada")), credential.ErrNotFound)
	wantErr(t, "changed before", s.ChangeUser(ctx, userRow(Tenant, "ada"), governed(t, Tenant)), credential.ErrChanged)
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			switch err := []Store{s, other}[i%2].AddUser(context.WithoutCancel(ctx), userRow(Tenant, fmt.Sprintf("user-%d", i)), true, governed(t, Tenant)); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, credential.ErrNotFirst):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Fatalf("%d were the first", won.Load())
	}
	must(t, s.AddUser(ctx, userRow(Tenant, "ada"), false, governed(t, Tenant)))
	wantErr(t, "twice", other.AddUser(ctx, userRow(Tenant, "ada"), false, governed(t, Tenant)), credential.ErrExists)
	must(t, other.AddUser(ctx, userRow(OtherTenant, "ada"), true, governed(t, OtherTenant))) // another tenant's is another user
	got, err := other.User(ctx, Tenant, "ada")
	must(t, err)
	if d := cmp.Diff(userRow(Tenant, "ada"), got); d != "" {
		t.Fatal(d)
	}
	won.Store(0)
	for i := range 16 {
		wg.Go(func() {
			u := userRow(Tenant, "ada")
			u.Groups, u.Disabled, u.Changed = []string{fmt.Sprintf("group-%d", i)}, true, clock.Now().Add(time.Second)
			switch err := []Store{s, other}[i%2].ChangeUser(context.WithoutCancel(ctx), u, governed(t, Tenant)); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, credential.ErrChanged):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err = s.User(ctx, Tenant, "ada")
	must(t, err)
	if won.Load() != 1 || got.Version != 2 || !got.Disabled || len(got.Groups) != 1 || epochOf(t, s, Tenant) != 2 {
		t.Fatalf("%d changes won: %+v", won.Load(), got)
	}
	if u, err := s.User(ctx, OtherTenant, "ada"); err != nil || u.Version != 1 || u.Disabled || epochOf(t, s, OtherTenant) != 1 {
		t.Fatalf("another tenant's user has changed: %+v, %v", u, err)
	}
	testUsersPages(t, s)
}

func testUsersPages(t *testing.T, s Store) {
	t.Helper()
	ctx := t.Context()
	for _, name := range []string{"c", "a", "b"} {
		must(t, s.AddUser(ctx, userRow(OtherTenant, name), false, governed(t, OtherTenant)))
	}
	var got []string
	for after := ""; ; {
		page, err := s.Users(ctx, OtherTenant, after, 3)
		must(t, err)
		for _, u := range page {
			got, after = append(got, u.Name), u.Name
		}
		if len(page) < 3 {
			break
		}
	}
	if d := cmp.Diff([]string{"a", "ada", "b", "c"}, got); d != "" {
		t.Fatal(d)
	}
}

func opening(tenant, user, id string) credential.Opening {
	return credential.Opening{Version: 1, Most: 3, Family: credential.Family{
		ID: hashOf("family " + tenant + id), Tenant: tenant, User: user, Newest: hashOf("first " + tenant + id),
		Created: Start(), Expires: Start().Add(time.Hour), Issued: Start(),
	}}
}

func withUsers(t *testing.T, b Backend) (s, other Store, clock *Clock) {
	t.Helper()
	s, other, clock = both(t, b)
	for _, u := range []credential.UserRow{userRow(Tenant, "ada"), userRow(Tenant, "bob"), userRow(OtherTenant, "ada")} {
		must(t, s.AddUser(t.Context(), u, false, governed(t, u.Tenant)))
	}
	return s, other, clock
}

func hasFamily(t testing.TB, s Store, id credential.Hash) bool {
	t.Helper()
	_, err := s.Family(t.Context(), id)
	if err != nil && !errors.Is(err, credential.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// A family begins only for a user who is as they were when they were verified; old ones make room.
func testFamilies(t *testing.T, b Backend) {
	s, other, _ := withUsers(t, b)
	ctx := t.Context()
	disabled := userRow(Tenant, "bob")
	disabled.Disabled = true
	must(t, s.ChangeUser(ctx, disabled, governed(t, Tenant)))
	changed, gone := opening(Tenant, "ada", "x"), opening(Tenant, "bob", "x")
	gone.Version = 2
	changed.Version = 2
	for name, o := range map[string]credential.Opening{
		"unknown": opening(Tenant, "eve", "x"), "another tenant's": opening(OtherTenant, "bob", "x"), "disabled": gone, "changed": changed,
	} {
		wantErr(t, name, s.OpenFamily(ctx, o), credential.ErrChanged)
		if hasFamily(t, s, o.ID) {
			t.Fatalf("%s: there is a family", name)
		}
	}
	o := opening(Tenant, "ada", "1")
	o.Rehashed = passwordHash("Q")
	must(t, s.OpenFamily(ctx, o))
	got, err := other.Family(ctx, o.ID)
	must(t, err)
	if d := cmp.Diff(o.Family, got); d != "" {
		t.Fatal(d)
	}
	if u, err := other.User(ctx, Tenant, "ada"); err != nil || u.Password != passwordHash("Q") || u.Version != 1 {
		t.Fatalf("%+v, %v", u, err)
	}
	if u, err := other.User(ctx, OtherTenant, "ada"); err != nil || u.Password != passwordHash("A") {
		t.Fatalf("%+v, %v", u, err)
	}
	theirs := opening(OtherTenant, "ada", "1")
	theirs.Expires = Start().Add(3 * time.Hour)
	must(t, s.OpenFamily(ctx, theirs))
	for i := 2; i < 5; i++ {
		o := opening(Tenant, "ada", fmt.Sprint(i))
		o.Created, o.Expires = o.Created.Add(time.Duration(i)*time.Minute), o.Expires.Add(time.Hour)
		must(t, s.OpenFamily(ctx, o))
	}
	for i, want := range []bool{false, true, true, true} {
		if got := hasFamily(t, other, opening(Tenant, "ada", fmt.Sprint(i+1)).ID); got != want {
			t.Fatalf("family %d is there: %v", i+1, got)
		}
	}
	// What has ended is forgotten when another begins, whosever it is.
	late := opening(OtherTenant, "ada", "late")
	late.Created, late.Expires = Start().Add(2*time.Hour), Start().Add(4*time.Hour)
	must(t, s.OpenFamily(ctx, late))
	if hasFamily(t, s, opening(Tenant, "ada", "4").ID) || !hasFamily(t, s, theirs.ID) {
		t.Fatal("what has ended is kept, or what hasn't is gone")
	}
}

// A credential is good once, over all handles; whoever comes second is told so, and a family that has ended is none.
func testFamiliesRotate(t *testing.T, b Backend) {
	s, other, clock := withUsers(t, b)
	ctx := t.Context()
	o := opening(Tenant, "ada", "1")
	must(t, s.OpenFamily(ctx, o))
	rotation := func(next string) credential.Rotation {
		return credential.Rotation{Tenant: Tenant, ID: o.ID, Was: o.Newest, Next: hashOf(next), Issued: Start().Add(time.Minute), Now: clock.Now()}
	}
	for name, change := range map[string]func(*credential.Rotation){
		"another tenant": func(r *credential.Rotation) { r.Tenant = OtherTenant }, "unknown": func(r *credential.Rotation) { r.ID = hashOf("x") },
		"ended": func(r *credential.Rotation) { r.Now = o.Expires },
	} {
		r := rotation("next")
		change(&r)
		wantErr(t, name, s.RotateFamily(ctx, r), credential.ErrNotFound)
	}
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			switch err := []Store{s, other}[i%2].RotateFamily(context.WithoutCancel(ctx), rotation(fmt.Sprint(i))); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, credential.ErrReused):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	f, err := other.Family(ctx, o.ID)
	must(t, err)
	if won.Load() != 1 || f.Newest == o.Newest || !f.Issued.Equal(Start().Add(time.Minute)) || !f.Expires.Equal(o.Expires) {
		t.Fatalf("%d have won: %+v", won.Load(), f)
	}
	r := rotation("last")
	r.Was, r.Now = f.Newest, o.Expires.Add(-time.Millisecond)
	must(t, s.RotateFamily(ctx, r))
	for name, bad := range map[string]credential.Rotation{"no next": {Tenant: Tenant, ID: o.ID, Was: hashOf("last"), Issued: Start()}, "no time": {Tenant: Tenant, ID: o.ID, Next: hashOf("x")}} {
		if err := s.RotateFamily(ctx, bad); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Fatalf("%s: %v", name, err)
		}
	}
	must(t, s.EndFamily(ctx, OtherTenant, o.ID))
	if !hasFamily(t, s, o.ID) {
		t.Fatal("another tenant has ended it")
	}
	must(t, s.EndFamily(ctx, Tenant, o.ID))
	must(t, other.EndFamily(ctx, Tenant, o.ID)) // once more changes nothing
	if hasFamily(t, other, o.ID) {
		t.Fatal("it is there")
	}
}

// The reuse of a credential ends the family, and the user's tokens up to now or to the newest of them, whichever is later.
func testFamiliesReused(t *testing.T, b Backend) {
	s, other, clock := withUsers(t, b)
	ctx := t.Context()
	o, kept, bobs, theirs := opening(Tenant, "ada", "1"), opening(Tenant, "ada", "2"), opening(Tenant, "bob", "3"), opening(OtherTenant, "ada", "4")
	ahead := clock.Now().Add(10 * time.Second)
	o.Issued = ahead
	for _, x := range []credential.Opening{o, kept, bobs, theirs} {
		must(t, s.OpenFamily(ctx, x))
	}
	wantErr(t, "another tenant", s.EndReused(ctx, OtherTenant, o.ID, clock.Now(), governed(t, OtherTenant)), credential.ErrNotFound)
	must(t, s.EndReused(ctx, Tenant, o.ID, clock.Now(), governed(t, Tenant)))
	wantErr(t, "again", other.EndReused(ctx, Tenant, o.ID, clock.Now(), governed(t, Tenant)), credential.ErrNotFound)
	if hasFamily(t, other, o.ID) || !hasFamily(t, other, kept.ID) || !hasFamily(t, other, bobs.ID) || !hasFamily(t, other, theirs.ID) {
		t.Fatal("other families have ended, or this one hasn't")
	}
	wantEnded(t, other, ahead)
	if n := len(check(t, s)); n != 4 { // the tenant, two users, and the reuse
		t.Fatalf("%d events", n)
	}
}

// wantEnded checks that the tokens of the tenant's ada, and of nobody else, are ended up to a time.
func wantEnded(t testing.TB, s Store, at time.Time) {
	t.Helper()
	for _, c := range []struct {
		tenant, name string
		issued       time.Time
		want         bool
	}{{Tenant, "ada", at, true}, {Tenant, "ada", at.Add(time.Second), false}, {Tenant, "bob", at, false}, {OtherTenant, "ada", at, false}} {
		if got := revoked(t, s, c.tenant, "any", c.name, c.issued); got != c.want {
			t.Fatalf("%s of %s, issued %v: %v", c.name, c.tenant, c.issued, got)
		}
	}
	if a, o := epochOf(t, s, Tenant), epochOf(t, s, OtherTenant); a != 2 || o != 1 {
		t.Fatalf("epochs %d and %d", a, o)
	}
}

// Whatever changes a user ends what they had, and nothing else.
func testUsersEnded(t *testing.T, b Backend) {
	s, other, clock := withUsers(t, b)
	ctx := t.Context()
	o, second, bobs, theirs := opening(Tenant, "ada", "1"), opening(Tenant, "ada", "2"), opening(Tenant, "bob", "3"), opening(OtherTenant, "ada", "4")
	ahead := clock.Now().Add(10 * time.Second)
	second.Issued = ahead
	for _, x := range []credential.Opening{o, second, bobs, theirs} {
		must(t, s.OpenFamily(ctx, x))
	}
	u := userRow(Tenant, "ada")
	u.Password = passwordHash("Q")
	must(t, s.ChangeUser(ctx, u, governed(t, Tenant)))
	if hasFamily(t, other, o.ID) || hasFamily(t, other, second.ID) || !hasFamily(t, other, bobs.ID) || !hasFamily(t, other, theirs.ID) {
		t.Fatal("other families have ended, or the user's haven't")
	}
	wantEnded(t, other, ahead)
}

// A user who is disabled while they log in and refresh has nothing left, in whichever order that happens.
func testUsersRace(t *testing.T, b Backend) {
	s, other, _ := withUsers(t, b)
	for i := range int64(10) {
		ctx := context.WithoutCancel(t.Context())
		o, had := opening(Tenant, "ada", fmt.Sprint("new", i)), opening(Tenant, "ada", fmt.Sprint("had", i))
		o.Version, had.Version = 2*i+1, 2*i+1
		must(t, s.OpenFamily(ctx, had))
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := s.OpenFamily(ctx, o); err != nil && !errors.Is(err, credential.ErrChanged) {
				t.Error(err)
			}
		})
		issued := Start().Add(time.Duration(i) * time.Minute)
		var rotated bool
		wg.Go(func() {
			err := s.RotateFamily(ctx, credential.Rotation{Tenant: Tenant, ID: had.ID, Was: had.Newest, Next: hashOf("next"), Issued: issued, Now: Start()})
			if rotated = err == nil; !rotated && !errors.Is(err, credential.ErrNotFound) {
				t.Error(err)
			}
		})
		u := userRow(Tenant, "ada")
		u.Disabled, u.Version = true, 2*i+1
		wg.Go(func() { must(t, other.ChangeUser(ctx, u, governed(t, Tenant))) })
		wg.Wait()
		if hasFamily(t, s, o.ID) || hasFamily(t, s, had.ID) {
			t.Fatal("a family has outlived its user")
		}
		if rotated && !revoked(t, s, Tenant, "any", "ada", issued) {
			t.Fatal("a token has outlived its user")
		}
		u.Disabled, u.Version = false, u.Version+1
		must(t, s.ChangeUser(ctx, u, governed(t, Tenant)))
	}
}

// What is not whole is refused without a trace.
func testUsersReject(t *testing.T, b Backend) {
	s, _, _ := withUsers(t, b)
	ctx := t.Context()
	for name, change := range map[string]func(*credential.UserRow){
		"no name": func(u *credential.UserRow) { u.Name = "" }, "no tenant": func(u *credential.UserRow) { u.Tenant = "" },
		"no password": func(u *credential.UserRow) { u.Password = "" }, "in clear": func(u *credential.UserRow) { u.Password = "hunter2" },
		"another hash": func(u *credential.UserRow) { u.Password = "$2b$10$abcdefghijklmnopqrstuv" }, "no version": func(u *credential.UserRow) { u.Version = 0 },
		"not made": func(u *credential.UserRow) { u.Created = time.Time{} }, "a line break": func(u *credential.UserRow) { u.Groups = []string{"a\nb"} },
		"another's event": func(u *credential.UserRow) { u.Tenant = OtherTenant }, "NUL": func(u *credential.UserRow) { u.Name = "a\x00" },
		"not UTF-8": func(u *credential.UserRow) { u.Groups = []string{"a\xff"} }, "too long": func(u *credential.UserRow) { u.Name = strings.Repeat("x", maxName+1) },
	} {
		u := userRow(Tenant, "eve")
		change(&u)
		if err := s.AddUser(ctx, u, false, governed(t, Tenant)); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Fatalf("%s: %v", name, err)
		}
		if err := s.ChangeUser(ctx, u, governed(t, Tenant)); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Fatalf("%s, as a change: %v", name, err)
		}
	}
	for name, change := range map[string]func(*credential.Opening){
		"no id": func(o *credential.Opening) { o.ID = credential.Hash{} }, "no hash": func(o *credential.Opening) { o.Newest = credential.Hash{} },
		"no end": func(o *credential.Opening) { o.Expires = time.Time{} }, "ended": func(o *credential.Opening) { o.Expires = o.Created },
		"no tenant": func(o *credential.Opening) { o.Tenant = "" }, "no token": func(o *credential.Opening) { o.Issued = time.Time{} },
	} {
		o := opening(Tenant, "ada", "1")
		change(&o)
		if err := s.OpenFamily(ctx, o); counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Fatalf("%s: %v", name, err)
		}
	}
	users, err := s.Users(ctx, Tenant, "", 10)
	must(t, err)
	if len(users) != 2 || epochOf(t, s, Tenant) != 1 {
		t.Fatalf("%d users", len(users))
	}
}
