package vault_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/vault"
)

const (
	// The example of the published specification.
	fernetKey   = "cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4="
	fernetToken = "gAAAAAAdwJ6wAAECAwQFBgcICQoLDA0ODy021cpGVWKZ_eEwCGM4BLLF_5CV9dOPmrhuVUPgJobwOz7JcbmrR64jVmpU4IwqDA=="
)

func fernet(t testing.TB) *vault.FernetKey {
	t.Helper()
	k, err := vault.ParseFernetKey(fernetKey)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// makeFernet makes a token with any version and padded text, under the right tag.
func makeFernet(t testing.TB, version byte, padded []byte) string {
	t.Helper()
	key, err := base64.URLEncoding.DecodeString(fernetKey)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(key[16:])
	if err != nil {
		t.Fatal(err)
	}
	head := append([]byte{version, 0, 0, 0, 0, 1, 2, 3, 4}, make([]byte, 16)...)
	body := make([]byte, len(padded))
	if len(padded)%16 == 0 {
		cipher.NewCBCEncrypter(block, head[9:]).CryptBlocks(body, padded)
	}
	mac := hmac.New(sha256.New, key[:16])
	mac.Write(head)
	mac.Write(body)
	return base64.URLEncoding.EncodeToString(append(append(head, body...), mac.Sum(nil)...))
}

func TestFernet_opens(t *testing.T) {
	t.Parallel()
	k := fernet(t)
	if plain, err := k.Open([]byte(fernetToken)); err != nil || string(plain) != "hello" {
		t.Fatalf("opened %q, %v", plain, err)
	}
	for n := range 33 {
		text := strings.Repeat("x", n)
		pad := 16 - n%16
		token := makeFernet(t, 0x80, append([]byte(text), bytes.Repeat([]byte{byte(pad)}, pad)...))
		if plain, err := k.Open([]byte(token)); err != nil || string(plain) != text {
			t.Fatalf("%d bytes: opened %q, %v", n, plain, err)
		}
	}
}

func TestFernet_rejects(t *testing.T) {
	t.Parallel()
	k := fernet(t)
	full := bytes.Repeat([]byte{16}, 16)
	seventeen := bytes.Repeat([]byte{17}, 32)
	uneven := append(bytes.Repeat([]byte{4}, 12), 3, 4, 4, 4)
	raw, err := base64.URLEncoding.DecodeString(fernetToken)
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"empty": "", "no base64": "%%%%", "version": makeFernet(t, 0x81, full), "zero padding": makeFernet(t, 0x80, make([]byte, 16)),
		"padding of 17": makeFernet(t, 0x80, seventeen), "uneven padding": makeFernet(t, 0x80, uneven), "no text": makeFernet(t, 0x80, nil),
		"half a block": makeFernet(t, 0x80, make([]byte, 24)), "unpadded base64": strings.TrimRight(fernetToken, "="),
		"padded more": fernetToken + "=", "line break": fernetToken[:20] + "\n" + fernetToken[20:], "line end": fernetToken + "\n",
		"standard alphabet": strings.ReplaceAll(fernetToken, "_", "/"), "blank": " " + fernetToken, "twice": fernetToken + fernetToken,
		"trailing bits": strings.Replace(fernetToken, "DA==", "DB==", 1), "sealed": "cf1.k.AAAA",
		"short": base64.URLEncoding.EncodeToString(raw[:len(raw)-1]), "cut": base64.URLEncoding.EncodeToString(raw[:40]),
		"too long": strings.Repeat("A", vault.MaxPlain+4),
	} {
		plain, err := k.Open([]byte(token))
		if !errors.Is(err, counterfoil.CodeIntegrityFailed) || plain != nil {
			t.Errorf("%s: opened %q, %v", name, plain, err)
		}
		if want := "integrity-failed: this is no Fernet token of that key"; err != nil && err.Error() != want {
			t.Errorf("%s: the error tells more: %v", name, err)
		}
	}
	var none *vault.FernetKey
	if _, err := none.Open([]byte(fernetToken)); !errors.Is(err, counterfoil.CodeIntegrityFailed) {
		t.Errorf("without a key: %v", err)
	}
}

func TestFernet_everyBit(t *testing.T) {
	t.Parallel()
	k := fernet(t)
	for i := range len(fernetToken) {
		for bit := range 8 {
			bad := []byte(fernetToken)
			bad[i] ^= 1 << bit
			if plain, err := k.Open(bad); err == nil || plain != nil {
				t.Fatalf("byte %d bit %d: opened %q", i, bit, plain)
			}
		}
	}
}

func TestParseFernetKey_rejects(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", fernetKey[:43], fernetKey + "=", "\n" + fernetKey, strings.Replace(fernetKey, "e4=", "e5=", 1),
		strings.ReplaceAll(fernetKey, "_", "/"), "c2hvcnQ=", strings.Repeat("a", 64)} {
		if _, err := vault.ParseFernetKey(text); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		if got := fmt.Sprintf(verb, fernet(t)); got != "[redacted]" {
			t.Errorf("%s prints %s", verb, got)
		}
	}
}

func FuzzFernet(f *testing.F) {
	k := fernet(f)
	f.Add([]byte(fernetToken))
	f.Add([]byte(makeFernet(f, 0x81, bytes.Repeat([]byte{16}, 16))))
	f.Add([]byte(makeFernet(f, 0x80, make([]byte, 16))))
	f.Add([]byte("gAAAAA=="))
	f.Fuzz(func(t *testing.T, token []byte) {
		plain, err := k.Open(token)
		if err == nil && string(token) != fernetToken {
			t.Fatalf("opened %q from %q", plain, token)
		}
		if err != nil && plain != nil {
			t.Fatal("a value with an error")
		}
	})
}
