package counterfoil

import (
	"bytes"
	"context"
	"encoding/base64"
	"strconv"
	"strings"
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
	key KeyID
	sig []byte
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

// seal signs a payload once.
func seal(ctx context.Context, t payloadType, payload []byte, role Role, s Signer) (*envelope, error) {
	if s == nil {
		return nil, fail(CodeInvalidInput, "there is no signer")
	}
	e := &envelope{typ: t, payload: payload}
	sig, err := s.Sign(ctx, e.message(role))
	if err != nil {
		if CodeOf(err) == CodeInternal {
			return nil, failWith(CodeUnavailable, "the signer failed", err)
		}
		return nil, err
	}
	e.signatures = []signature{{key: s.Public().ID, sig: sig}}
	e.canon = e.encode()
	return e, nil
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
		w.text("keyid", string(s.key))
		w.text("sig", base64.StdEncoding.EncodeToString(s.sig))
		w.close('}')
	}
	w.close(']')
	w.close('}')
	return w.b
}

// parseEnvelope reads an envelope of type t. It refuses every spelling but the canonical one, so that a changed byte
// anywhere is either a changed signature, a changed payload or a refusal.
func parseEnvelope(b []byte, t payloadType) (*envelope, error) {
	d, err := parseDocument(b, limits{bytes: 4 * maxDocumentBytes, nodes: 256, depth: 4, width: maxSignatures}, numbersExact)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(d.canonical(), b) {
		return nil, fail(CodeInvalidInput, "a signed document must be in canonical form")
	}
	r := &reader{doc: d}
	var m [3]int
	r.members(0, m[:], "payload", "payloadType", "signatures")
	e := &envelope{typ: t, canon: d.canon}
	e.payload = r.base64(m[0])
	r.literal(m[1], string(t))
	for _, n := range r.elements(m[2], maxSignatures) {
		var s [2]int
		r.members(n, s[:], "keyid", "sig")
		e.signatures = append(e.signatures, signature{key: KeyID(r.identity(s[0])), sig: r.base64(s[1])})
	}
	if r.err == nil && len(e.signatures) == 0 {
		r.fail(m[2], "there is no signature")
	}
	if r.err != nil {
		return nil, r.err
	}
	return e, nil
}

// base64 reads standard base64 of one spelling: padded, no stray bits, no line breaks (which the decoder would skip).
func (r *reader) base64(n int) []byte {
	if !r.is(n, '"', "a string") {
		return nil
	}
	s := r.doc.str(r.doc.nodes[n].text)
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || len(b) == 0 || strings.ContainsAny(s, "\r\n") {
		r.fail(n, "this must be standard base64")
		return nil
	}
	return b
}

// payloadReader parses the payload, which must be canonical.
func (e *envelope) payloadReader() (*reader, error) {
	d, err := parseDocument(e.payload, documentLimits(), numbersExact)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(d.canonical(), e.payload) {
		return nil, fail(CodeInvalidInput, "a signed document must be in canonical form")
	}
	return &reader{doc: d, signed: true}, nil
}

// single returns the one signature of a document that has exactly one signer.
func (e *envelope) single() (signature, error) {
	if len(e.signatures) != 1 {
		return signature{}, fail(CodeSignatureInvalid, "this document has exactly one signature")
	}
	return e.signatures[0], nil
}
