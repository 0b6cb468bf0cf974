package vault_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/vault"
)

func master() []byte {
	b := make([]byte, vault.MasterSize)
	for i := range b {
		b[i] = byte(0xf8 + i*7) // so that the alphabets of base64 differ
	}
	return b
}

func TestParseMaster(t *testing.T) {
	t.Parallel()
	want := master()
	for _, text := range []string{
		hex.EncodeToString(want), strings.ToUpper(hex.EncodeToString(want)), base64.StdEncoding.EncodeToString(want),
		base64.RawStdEncoding.EncodeToString(want), base64.URLEncoding.EncodeToString(want), base64.RawURLEncoding.EncodeToString(want),
	} {
		if got, err := vault.ParseMaster(text); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %x, %v", text, got, err)
		}
	}
	std := base64.StdEncoding.EncodeToString(want)
	for name, text := range map[string]string{
		"empty": "", "16 bytes": base64.StdEncoding.EncodeToString(want[:16]), "24 bytes": base64.StdEncoding.EncodeToString(want[:24]),
		"31 bytes": base64.StdEncoding.EncodeToString(want[:31]), "33 bytes": base64.StdEncoding.EncodeToString(append(want, 1)),
		"16 bytes in hex": hex.EncodeToString(want[:16]), "a passphrase": "correct horse battery staple 123", "32 characters": strings.Repeat("k", 32),
		"blank": " " + std, "blank after": std + " ", "line end": std + "\n", "broken": std[:10] + "\n" + std[10:], "broken, of length": std[:10] + "\n" + std[11:],
		"foreign character": std[:10] + "!" + std[11:], "two alphabets": "-/" + std[2:], "trailing bits": std[:42] + "9=", "trailing bits of the other": base64.RawURLEncoding.EncodeToString(want)[:42] + "9",
		"padded twice": std[:43] + "==", "half hex": hex.EncodeToString(want)[:63] + "g",
	} {
		if got, err := vault.ParseMaster(text); !errors.Is(err, counterfoil.CodeInvalidInput) || got != nil {
			t.Errorf("%s: %x, %v", name, got, err)
		} else if len(text) > 0 && strings.Contains(err.Error(), text) {
			t.Errorf("%s: the error repeats it: %v", name, err)
		}
	}
}

func TestParseKeys(t *testing.T) {
	t.Parallel()
	one, two := base64.StdEncoding.EncodeToString(master()), hex.EncodeToString(bytes.Repeat([]byte{1}, 32))
	for _, text := range []string{one + "," + two, one + "\n" + two + "\n", one + "\r\n" + two} {
		keys, err := vault.ParseKeys(text)
		if err != nil || len(keys) != 2 {
			t.Fatalf("%d keys, %v", len(keys), err)
		}
		if v := open(t, keys...); v.KeyIDs()[1] != keys[1].ID || keys[0].ID == keys[1].ID {
			t.Fatalf("ids %v", v.KeyIDs())
		}
	}
	for _, text := range []string{"", ",", "\n", one + ",x", one + ", " + two, "x", one + "," + one, strings.Repeat("0", 64)} {
		if _, err := vault.ParseKeys(text); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The id comes from the key: it is the same for ever, tells nothing of it, and another key has another.
func TestNewKey(t *testing.T) {
	t.Parallel()
	k, err := vault.NewKey(master())
	if err != nil || k.ID != "k-4f03928abd467d87" {
		t.Fatalf("%s, %v", k.ID, err)
	}
	for _, b := range [][]byte{nil, master()[:31], append(master(), 0)} {
		if _, err := vault.NewKey(b); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%d bytes: %v", len(b), err)
		}
	}
	v, err := vault.Load(t.Context(), bytes.NewReader(nil), vault.Local{k})
	if err != nil || len(v.KeyIDs()) != 1 || v.KeyIDs()[0] != k.ID {
		t.Fatal(err)
	}
	if _, err := vault.Load(t.Context(), bytes.NewReader(nil), nil); !errors.Is(err, counterfoil.CodeInvalidInput) {
		t.Error(err)
	}
	if _, err := vault.Load(t.Context(), bytes.NewReader(nil), away{}); !errors.Is(err, counterfoil.CodeUnavailable) {
		t.Error(err)
	}
}

// away is a KMS that does not answer.
type away struct{}

func (away) Masters(context.Context) ([]vault.Key, error) { return nil, errors.New("refused") }

// Nothing prints a key or a secret.
func TestPrints(t *testing.T) {
	t.Parallel()
	k, err := vault.NewKey(bytes.Repeat([]byte("secretky"), 4))
	if err != nil {
		t.Fatal(err)
	}
	v, err := vault.NewValue([]byte("secretky of mine"))
	if err != nil {
		t.Fatal(err)
	}
	f := filled(t, map[string]string{"/headers/X-Key": "Bearer {{secret:key}}"}, "secretky of mine")
	var log bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	for _, x := range []any{k, &k, []vault.Key{k}, v, &v, map[string]vault.Value{"x": v}, struct{ V vault.Value }{v}, struct{ v vault.Value }{v}, struct{ v *vault.Filled }{f}, f, *f, fernet(t), f.Scrubber(), *f.Scrubber()} {
		texts := []string{fmt.Sprint(x)}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o"} {
			texts = append(texts, fmt.Sprintf(verb, x))
		}
		logger.Info("x", slog.Any("x", x))
		if b, err := json.Marshal(x); err == nil {
			texts = append(texts, string(b))
		}
		texts = append(texts, fmt.Errorf("failed: %v", x).Error())
		for _, s := range append(texts, log.String()) {
			for _, secret := range []string{"secretky", "7365637265746b79", "7365 6372", "115 101 99", "0x73", "c2VjcmV0a3", "163 145", hex.EncodeToString([]byte("SECRET"))} {
				if strings.Contains(strings.ToLower(s), strings.ToLower(secret)) {
					t.Errorf("%T: %s", x, s)
				}
			}
		}
		log.Reset()
	}
}
