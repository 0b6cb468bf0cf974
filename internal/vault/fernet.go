package vault

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"

	"github.com/counterfoil/counterfoil"
)

// A FernetKey opens Fernet tokens (https://github.com/fernet/spec), which other systems have stored secrets in. It makes
// none: a token says nothing of whom it belongs to, and can be moved from one tenant to another unnoticed. So tokens are read
// once, by [Secrets.Import], and never where a sealed value is expected.
type FernetKey struct {
	// The key for the tag and the one for the text. As of a Value: nothing that prints it finds them.
	keys func() (signing, encryption []byte)
}

const (
	fernetVersion = 0x80
	fernetHead    = 1 + 8 + aes.BlockSize // version, time, initialisation vector
)

// ParseFernetKey reads a key: 32 bytes in padded base64 of the URL alphabet.
func ParseFernetKey(text string) (*FernetKey, error) {
	b, err := strictURL([]byte(text))
	if err != nil || len(b) != 32 {
		return nil, fail(counterfoil.CodeInvalidInput, "a Fernet key is 32 bytes in padded base64 of the URL alphabet", nil)
	}
	return &FernetKey{func() (signing, encryption []byte) { return b[:16], b[16:] }}, nil
}

// Open returns what a token holds. Its age is not judged. Whatever is wrong with it, the error is one and the same
// CodeIntegrityFailed, so that nobody learns of the padding.
func (k *FernetKey) Open(token []byte) ([]byte, error) {
	bad := func() ([]byte, error) {
		return nil, fail(counterfoil.CodeIntegrityFailed, "this is no Fernet token of that key", nil)
	}
	if k == nil || k.keys == nil || len(token) > MaxPlain {
		return bad()
	}
	b, err := strictURL(token)
	if err != nil || len(b) < fernetHead+aes.BlockSize+sha256.Size || (len(b)-fernetHead-sha256.Size)%aes.BlockSize != 0 {
		return bad()
	}
	signing, encryption := k.keys()
	signed, tag := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	mac := hmac.New(sha256.New, signing)
	mac.Write(signed)
	if !hmac.Equal(mac.Sum(nil), tag) || signed[0] != fernetVersion {
		return bad()
	}
	block, err := aes.NewCipher(encryption)
	if err != nil {
		return bad()
	}
	plain := make([]byte, len(signed)-fernetHead)
	cipher.NewCBCDecrypter(block, signed[fernetHead-aes.BlockSize:fernetHead]).CryptBlocks(plain, signed[fernetHead:])
	n := int(plain[len(plain)-1])
	if n < 1 || n > aes.BlockSize || !bytes.Equal(plain[len(plain)-n:], bytes.Repeat([]byte{byte(n)}, n)) {
		return bad() // the writer's own mistake: the tag was right
	}
	return plain[:len(plain)-n], nil
}

// strictURL takes the one spelling of bytes in padded base64 of the URL alphabet. The decoder skips line breaks.
func strictURL(text []byte) ([]byte, error) {
	if bytes.ContainsAny(text, "\r\n") {
		return nil, base64.CorruptInputError(0)
	}
	return base64.URLEncoding.Strict().AppendDecode(nil, text)
}

// String returns "[redacted]".
func (k *FernetKey) String() string { return redacted }

// Format implements fmt.Formatter: every verb prints "[redacted]".
func (k *FernetKey) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue implements slog.LogValuer.
func (k *FernetKey) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON returns "[redacted]".
func (k *FernetKey) MarshalJSON() ([]byte, error) { return quoted(redacted) }
