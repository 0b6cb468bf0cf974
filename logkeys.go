package counterfoil

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// VerifierKey returns the text by which other programs know a key of a log or a witness (a vkey of c2sp.org/signed-note): what
// a witness is told of a log, and a log of a witness. The name is the log's origin, or the witness's own.
func VerifierKey(k PublicKey, name string) (string, error) {
	k, err := k.remade()
	if err != nil {
		return "", err
	}
	alg := noteEd25519
	switch {
	case k.Role == RoleWitness && k.Owner == name:
		alg = noteCosignature
	case k.Role != RoleCheckpoint || !isNoteName(name):
		return "", fail(CodeInvalidInput, "this key signs neither as a log nor as a witness of that name")
	}
	return k.verifierKey(name, alg), nil
}

func (k *PublicKey) verifierKey(name string, alg noteAlgorithm) string {
	id := k.noteID(name, alg)
	raw := append([]byte{byte(alg)}, k.key.raw...)
	return name + "+" + hex.EncodeToString(id[:]) + "+" + base64.StdEncoding.EncodeToString(raw)
}

// NewWitnessKey makes the verification key of a witness from the text that the witness publishes, which also has its name.
// Role and Owner of p are those of the text and may be left out.
func NewWitnessKey(vkey string, p KeyParams) (PublicKey, error) {
	name, rest, _ := strings.Cut(vkey, "+")
	_, encoded, _ := strings.Cut(rest, "+")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	key, cosigns := bytes.CutPrefix(raw, []byte{byte(noteCosignature)})
	if err != nil || !cosigns || len(key) != ed25519.PublicKeySize {
		return PublicKey{}, fail(CodeInvalidInput, "this is not the verifier key of a witness that cosigns with Ed25519")
	}
	if p.Role != "" && p.Role != RoleWitness || p.Owner != "" && p.Owner != name {
		return PublicKey{}, fail(CodeInvalidInput, "the verifier key is of another name or role")
	}
	p.Role, p.Owner = RoleWitness, name
	k, err := newPublicKey(key, p)
	if err != nil {
		return PublicKey{}, err
	}
	if k.verifierKey(name, noteCosignature) != vkey { // the id and the spelling
		return PublicKey{}, fail(CodeInvalidInput, "the verifier key contradicts itself")
	}
	return k, nil
}
