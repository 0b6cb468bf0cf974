package counterfoil_test

import (
	"context"
	"encoding/base64"
	"slices"
	"testing"

	"github.com/counterfoil/counterfoil"
)

// forgeEnvelope signs any payload at all with real keys. Keys sign only documents of this package, so the attacker is
// played through the one hole that a test can make: the seed is known, and so is the key.
func forgeEnvelope(t testing.TB, kind string, payload doc, keys ...*counterfoil.PrivateKey) []byte {
	t.Helper()
	typ := "application/vnd.counterfoil." + kind + ".v1+json"
	raw := canonical(payload)
	signatures := list{}
	keys = slices.Clone(keys)
	slices.SortFunc(keys, func(a, b *counterfoil.PrivateKey) int {
		return compareStrings(string(a.Public().ID), string(b.Public().ID))
	})
	for _, k := range keys {
		sig, err := k.Sign(context.Background(), counterfoil.ForgeMessage(k.Public().Role, typ, raw))
		noError(t, err)
		signatures = append(signatures, doc{"keyid": string(k.Public().ID), "sig": base64.StdEncoding.EncodeToString(sig)})
	}
	return canonical(doc{"payloadType": typ, "payload": base64.StdEncoding.EncodeToString(raw), "signatures": signatures})
}
