package counterfoil

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
)

// A payloadType names what an envelope holds; it is part of what is signed.
type payloadType string

const (
	typeApproval    payloadType = "application/vnd.counterfoil.approval.v1+json"
	typeConsumption payloadType = "application/vnd.counterfoil.consumption.v1+json"
	typeReceipt     payloadType = "application/vnd.counterfoil.receipt.v1+json"
	typeDecision    payloadType = "application/vnd.counterfoil.decision.v1+json"
)

// maxSignatures bounds the signatures of one envelope.
const maxSignatures = 32

// A signature is one of an envelope's.
type signature struct {
	key                  KeyID
	sig                  []byte
	authData, clientData []byte // of a passkey's signature; nil in a plain one
}

// An envelope is a DSSE v1 envelope (github.com/secure-systems-lab/dsse) in canonical JSON. Its payload is the canonical
// bytes of one document.
type envelope struct {
	typ        payloadType
	payload    []byte
	signatures []signature
	canon      []byte
}

// pae is DSSE's pre-authentication encoding: what is really signed.
func pae(t payloadType, payload []byte) []byte {
	b := make([]byte, 0, len(t)+len(payload)+40)
	b = append(b, "DSSEv1 "...)
	b = strconv.AppendInt(b, int64(len(t)), 10)
	b = append(b, ' ')
	b = append(b, t...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(len(payload)), 10)
	b = append(b, ' ')
	return append(b, payload...)
}

// message is what a key of role r signs. Approvals alone have two possible roles, told apart by their authority.
func (e *envelope) message(r Role) Message { return Message{role: r, pae: pae(e.typ, e.payload)} }

// seal signs a payload once, with the signer's key, which the caller has judged.
func seal(ctx context.Context, t payloadType, payload []byte, role Role, s Signer, key PublicKey) (*envelope, error) {
	e := &envelope{typ: t, payload: payload}
	sig, err := signed(ctx, e.message(role), s, key)
	if err != nil {
		return nil, err
	}
	return e.with(signature{key: key.ID, sig: sig}), nil
}

// signed has a signer sign a message with the key that it has shown. What comes from outside this package, from a key
// management service for example, is verified: a signature that fits nothing must not be found out years later.
func signed(ctx context.Context, m Message, s Signer, key PublicKey) (sig []byte, err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, failWith(CodeAborted, "cancelled before it was signed", err)
	}
	switch {
	case key.Passkey != nil:
		return nil, fail(CodeSignatureInvalid, "a passkey signs elsewhere: its signature is attached")
	case key.Role != m.role:
		return nil, fail(CodeSignatureInvalid, "the signer's key has another role")
	}
	err = guarded(func() (err error) {
		sig, err = s.Sign(ctx, m)
		return err
	})
	_, own := s.(*PrivateKey)
	switch {
	case context.Cause(ctx) != nil:
		return nil, failWith(CodeAborted, "cancelled while it was signed", context.Cause(ctx))
	case err != nil && CodeOf(err) == CodeInternal:
		return nil, failWith(CodeUnavailable, "the signer failed", err)
	case err != nil:
		return nil, failWith(CodeOf(err), "the signer refused", err)
	case !own && !key.key.verify(m.pae, sig):
		return nil, fail(CodeUnavailable, "the signer did not sign, or with another key than it has shown")
	}
	return sig, nil
}

// with returns the envelope with one signature more, of a key that has not signed. They stand in the order of their keys.
func (e *envelope) with(s signature) *envelope {
	at, _ := slices.BinarySearchFunc(e.signatures, s, compareSignatures)
	c := &envelope{typ: e.typ, payload: e.payload, signatures: slices.Insert(slices.Clip(e.signatures), at, s)}
	c.canon = c.encode()
	return c
}

func compareSignatures(a, b signature) int { return compareUTF16(a.key, b.key) }

// guarded calls into the host. A panic there becomes an error: it must not skip what has to follow.
func guarded(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = failWith(CodeInternal, "the host's code panicked", fmt.Errorf("panic: %v", p))
		}
	}()
	return call()
}

// publicOf asks a signer for its key.
func publicOf(s Signer) (k PublicKey, err error) {
	if s == nil {
		return k, fail(CodeInvalidInput, "there is no signer")
	}
	if err = guarded(func() error { k = s.Public(); return nil }); err != nil {
		return k, failWith(CodeUnavailable, "the signer failed", err)
	}
	return k, nil
}

func (e *envelope) encode() []byte {
	w := &writer{b: make([]byte, 0, len(e.payload)*4/3+256)}
	w.open('{')
	w.text("payload", base64.StdEncoding.EncodeToString(e.payload))
	w.text("payloadType", string(e.typ))
	w.name("signatures")
	w.b = append(w.b, '[')
	for _, s := range e.signatures {
		w.open('{')
		if s.authData != nil {
			w.text("authenticatorData", base64.StdEncoding.EncodeToString(s.authData))
			w.text("clientDataJSON", base64.StdEncoding.EncodeToString(s.clientData))
		}
		w.text("keyid", string(s.key))
		w.text("sig", base64.StdEncoding.EncodeToString(s.sig))
		w.close('}')
	}
	w.close(']')
	w.close('}')
	return w.b
}

// parseEnvelope reads an envelope of type t.
func parseEnvelope(b []byte, t payloadType) (*envelope, error) {
	r, err := newSignedReader(bytes.Clone(b), limits{bytes: 4 * maxDocumentBytes, nodes: 256, depth: 4, width: maxSignatures})
	if err != nil {
		return nil, err
	}
	return readEnvelope(r, r.root(), t)
}

// readEnvelope reads the envelope at value n. It refuses every spelling but the canonical one, so that a changed byte
// anywhere is either a changed signature, a changed payload or a refusal.
func readEnvelope(r *reader, n value, t payloadType) (*envelope, error) {
	var m [3]value
	r.members(n, m[:], "payload", "payloadType", "signatures")
	strict := base64.StdEncoding.Strict()
	e := &envelope{typ: t, payload: r.base64(m[0], strict)}
	r.literal(m[1], string(t))
	for _, k := range r.elements(m[2], maxSignatures) {
		s := readSignature(r, k)
		if last := len(e.signatures) - 1; last >= 0 && r.err == nil && compareSignatures(e.signatures[last], s) >= 0 {
			r.fail(k, "the signatures are not in the order of their keys, or one key has signed twice")
		}
		e.signatures = append(e.signatures, s)
	}
	if r.err == nil && len(e.signatures) == 0 {
		r.fail(m[2], "there is no signature")
	}
	if r.err != nil {
		return nil, r.err
	}
	e.canon = r.raw(n)
	return e, nil
}

func readSignature(r *reader, n value) signature {
	var m [4]value
	r.members(n, m[:], "authenticatorData?", "clientDataJSON?", "keyid", "sig")
	s := signature{key: KeyID(r.identity(m[2])), sig: r.base64(m[3], base64.StdEncoding.Strict())}
	if r.has(m[0]) != r.has(m[1]) {
		r.fail(n, "a passkey's signature has both authenticatorData and clientDataJSON")
	}
	if r.has(m[0]) {
		s.authData, s.clientData = r.base64(m[0], base64.StdEncoding.Strict()), r.base64(m[1], base64.StdEncoding.Strict())
	}
	return s
}

// payloadReader parses the payload, which must be canonical.
func (e *envelope) payloadReader() (*reader, error) {
	return newSignedReader(e.payload, documentLimits())
}

// single returns the one signature of a document that has exactly one signer.
func (e *envelope) single() (signature, error) {
	if len(e.signatures) != 1 {
		return signature{}, fail(CodeSignatureInvalid, "this document has exactly one signature")
	}
	return e.signatures[0], nil
}
