package main

import (
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/counterfoil/counterfoil"
)

// A witness in the configuration: its verifier key as it publishes it ("NAME+HASH+KEY"), and the URL below which it takes
// checkpoints.
type witness struct {
	Key string `json:"key"`
	URL string `json:"url"`
}

// witnessed is a witness, checked.
type witnessed struct {
	key counterfoil.PublicKey
	url string
}

const maxWitnesses = 16

func checkWitnesses(list []witness) ([]witnessed, error) {
	if len(list) > maxWitnesses {
		return nil, errors.New("there are at most 16 witnesses")
	}
	out := make([]witnessed, 0, len(list))
	for _, w := range list {
		u, err := url.Parse(w.URL)
		switch {
		case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
			return nil, errors.New("a witness's url must be https://HOST/PATH")
		case u.Scheme != "https" && (u.Scheme != "http" || !slices.Contains([]string{"127.0.0.1", "::1", "localhost"}, u.Hostname())):
			return nil, errors.New("a witness's url must be https, but for one on this machine")
		}
		key, err := counterfoil.NewWitnessKey(w.Key, counterfoil.KeyParams{
			Role: counterfoil.RoleWitness, Owner: "", Custody: counterfoil.CustodyHolder, Tenants: []string{tenant},
			NotBefore: time.Unix(0, 0), NotAfter: time.Time{}, // a cosignature has a time of its own
		})
		if err != nil {
			return nil, errors.New("a witness's key must be NAME+HASH+KEY, as the witness publishes it")
		}
		if slices.ContainsFunc(out, func(o witnessed) bool { return o.key.Owner == key.Owner || o.key.ID == key.ID }) {
			return nil, errors.New("a witness is named twice")
		}
		out = append(out, witnessed{key: key, url: w.URL})
	}
	return out, nil
}
