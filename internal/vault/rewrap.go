package vault

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/counterfoil/counterfoil"
)

// proofTenant stands in the labels of proofs. No tenant has the name: it is no identity.
const proofTenant = " "

func proofLabel(id string) Label { return Label{Tenant: proofTenant, Kind: kindProof, Name: id} }

// KeyIDs returns the ids of the vault's keys, oldest first: the last one seals.
func (v *Vault) KeyIDs() []string { return slices.Clone(v.ids) }

// Admit holds the vault's keys against those that the store's values were sealed under, and records the newest before anything
// is sealed with it. It is to be called at every start, before the first Seal. A store with values under a key that the
// vault doesn't have, or has another under that id, is CodeIntegrityFailed: a start without the right keys must end there, and never go on with
// new ones.
func (v *Vault) Admit(ctx context.Context, r Records, now time.Time) error {
	known, err := r.VaultKeys(ctx)
	if err != nil {
		return err
	}
	for _, k := range known {
		if !slices.Contains(v.ids, k.ID) {
			return unknownKey(k.ID)
		}
		if _, err := v.Open(proofLabel(k.ID), k.Proof); err != nil {
			return fail(counterfoil.CodeIntegrityFailed,
				"the key "+k.ID+" is not the one that the store's records are sealed under: configure the right one", err)
		}
	}
	used := map[string]bool{v.newest: true}
	if len(known) == 0 {
		// New, or nobody wrote down its keys: what was sealed says them itself.
		if err := v.discover(ctx, r, used); err != nil {
			return err
		}
	}
	for _, id := range v.ids {
		if !used[id] || slices.ContainsFunc(known, func(k KeyRecord) bool { return k.ID == id }) {
			continue
		}
		proof, err := v.sealUnder(id, proofLabel(id), []byte(kindProof))
		if err != nil {
			return err
		}
		if err := r.AddVaultKey(ctx, KeyRecord{ID: id, Proof: proof, Created: now.UTC().Truncate(time.Millisecond)}); err != nil {
			return err
		}
	}
	return nil
}

func unknownKey(id string) error {
	return fail(counterfoil.CodeIntegrityFailed, "the store has records that are sealed under the key "+id+
		", which is not configured: configure it beside the new one; what is sealed can't be read without it", nil)
}

func (v *Vault) discover(ctx context.Context, r Records, used map[string]bool) error {
	return v.walk(ctx, r, "", defaultPage, func(p SealedPage) error {
		for _, row := range p.Rows {
			id := KeyID(row.Sealed)
			if !slices.Contains(v.ids, id) {
				return unknownKey(id)
			}
			used[id] = true
		}
		return nil
	})
}

// walk goes through all values that are not sealed under the newest key.
func (v *Vault) walk(ctx context.Context, r Records, from string, page int, each func(SealedPage) error) error {
	for {
		p, err := r.Sealed(ctx, v.newest, from, page)
		if err == nil {
			err = each(p)
		}
		if err != nil || p.Next == "" {
			return err
		}
		if err := context.Cause(ctx); err != nil {
			return fail(counterfoil.CodeAborted, "it was stopped; run it again to go on", err)
		}
		from = p.Next
	}
}

const defaultPage = 100

// Progress is how far a Rewrap has come.
type Progress struct {
	Looked    int    // at so many values
	Rewrapped int    // sealed again
	Moved     int    // changed or removed by others meanwhile: the next run looks at them
	Failed    int    // could not be opened
	Next      string // where a later run may go on
}

// RewrapOptions say how to go about it. The zero value is fine.
type RewrapOptions struct {
	From   string         // Progress.Next of an earlier run; "" for the beginning
	Page   int            // values per transaction; 0 is 100
	Report func(Progress) // after each page; nil for nobody
}

// Rewrap seals again, under the newest key, all that the store has under older ones. It may be stopped and run again at any time, and
// while others work: each value is replaced only if it is still the one that was read. A value that can't be opened stays, is
// counted, and is the error at the end.
func (v *Vault) Rewrap(ctx context.Context, r Records, o RewrapOptions) (Progress, error) {
	if o.Page <= 0 {
		o.Page = defaultPage
	}
	p := Progress{Next: o.From}
	var bad error
	err := v.walk(ctx, r, o.From, o.Page, func(page SealedPage) error {
		rows := make([]Resealed, 0, len(page.Rows))
		for _, row := range page.Rows {
			sealed, err := v.reseal(row)
			if errors.Is(err, counterfoil.CodeIntegrityFailed) {
				p.Failed++
				if bad == nil {
					bad = fail(counterfoil.CodeIntegrityFailed, "some records could not be opened, the first of them in "+row.Place, err)
				}
				continue
			}
			if err != nil {
				return err
			}
			rows = append(rows, Resealed{row, sealed})
		}
		n, err := r.Reseal(ctx, rows)
		if err != nil {
			return err
		}
		p.Looked, p.Rewrapped, p.Moved, p.Next = p.Looked+page.Looked, p.Rewrapped+n, p.Moved+len(rows)-n, page.Next
		if o.Report != nil {
			o.Report(p)
		}
		return nil
	})
	return p, errors.Join(err, bad)
}

func (v *Vault) reseal(row SealedRow) ([]byte, error) {
	plain, err := v.Open(row.Label, row.Sealed)
	if err != nil {
		return nil, err
	}
	return v.Seal(row.Label, plain)
}

// Retire forgets an older key when nothing in the store is sealed under it any more, so that it can be taken out of the
// configuration. Every process must have the newer key by then. If something is, it is CodePolicyDenied: Rewrap first.
func (v *Vault) Retire(ctx context.Context, r Records, id string) error {
	if id == v.newest || !slices.Contains(v.ids, id) {
		return fail(counterfoil.CodeInvalidInput, "a key that seals, or that the vault doesn't have, can't be retired", nil)
	}
	err := v.walk(ctx, r, "", defaultPage, func(p SealedPage) error {
		if slices.ContainsFunc(p.Rows, func(row SealedRow) bool { return KeyID(row.Sealed) == id }) {
			return fail(counterfoil.CodePolicyDenied, "records are still sealed under this key; seal them again first", nil)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.DropVaultKey(ctx, id)
}
