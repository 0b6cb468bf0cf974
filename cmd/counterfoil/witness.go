package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

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
		key, err := witnessKey(w.Key)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(o witnessed) bool { return o.key.Owner == key.Owner || o.key.ID == key.ID }) {
			return nil, errors.New("a witness is named twice")
		}
		out = append(out, witnessed{key: key, url: w.URL})
	}
	return out, nil
}

// cosignatureKey is the algorithm of a witness's key in its text form (c2sp.org/tlog-cosignature).
const cosignatureKey = 0x04

// witnessKey reads a verifier key in the text form of signed notes: the name, four bytes of a hash in hex, and the algorithm
// with the key in base64.
func witnessKey(text string) (counterfoil.PublicKey, error) {
	bad := errors.New("a witness's key must be NAME+HASH+KEY, as the witness publishes it")
	name, rest, ok := strings.Cut(text, "+")
	hash, encoded, ok2 := strings.Cut(rest, "+")
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if !ok || !ok2 || err != nil || len(raw) != 33 || raw[0] != cosignatureKey {
		return counterfoil.PublicKey{}, bad
	}
	id, err := strconv.ParseUint(hash, 16, 32)
	if err != nil || len(hash) != 8 {
		return counterfoil.PublicKey{}, bad
	}
	// The boundary makes public keys from JSON web keys alone, and names them by their thumbprint.
	jwk := map[string]any{
		"alg": "EdDSA", "crv": "Ed25519", "custody": "holder", "kid": thumbprint(raw[1:]), "kty": "OKP", "notBefore": beginning,
		"owner": name, "role": "witness", "tenants": []string{tenant}, "use": "sig", "x": base64.RawURLEncoding.EncodeToString(raw[1:]),
	}
	b, err := json.Marshal(map[string]any{"keys": []any{jwk}})
	if err != nil {
		return counterfoil.PublicKey{}, err
	}
	ring, err := counterfoil.ParseKeyRing(b)
	if err != nil || len(ring.Keys()) != 1 {
		return counterfoil.PublicKey{}, bad
	}
	if uint64(binary.BigEndian.Uint32(noteHash(name, raw))) != id {
		return counterfoil.PublicKey{}, errors.New("a witness's key does not have the hash that is written in it")
	}
	return ring.Keys()[0], nil
}

// beginning is from when on a witness's key counts: a cosignature has a time of its own.
const beginning = "2000-01-01T00:00:00.000Z"

// thumbprint is a key's id by RFC 7638.
func thumbprint(raw []byte) string {
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + base64.RawURLEncoding.EncodeToString(raw) + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// noteHash is a key's hash in signed notes, over its name and its algorithm with the key.
func noteHash(name string, raw []byte) []byte {
	sum := sha256.Sum256(append([]byte(name+"\n"), raw...))
	return sum[:4]
}
