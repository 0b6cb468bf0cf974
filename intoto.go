package counterfoil

import (
	"bytes"
	"context"
	"encoding/hex"
	"slices"
)

const (
	// The payload type is part of what is signed: a receipt's signature never verifies as a statement's, nor the other way
	// round, although one key makes both (INV-8).
	typeStatement payloadType = "application/vnd.in-toto+json"

	statementType = "https://in-toto.io/Statement/v1"

	// StatementPredicateType is the predicate type of the statements that Receipt.Statement makes.
	StatementPredicateType = "https://github.com/counterfoil/counterfoil/receipt/v1"

	// StatementDigestName is under what name the subjects have their digests. They are no plain SHA-256 of a file: each has
	// its domain in front (see Digest), and no tool must take them for one that lacks it.
	StatementDigestName = "counterfoilV1"
)

// A Statement is a receipt as an in-toto attestation, for tools that read those: a Statement v1 in a DSSE envelope. Its
// subjects are the operation's input and, if there was one, the result; its predicate is the receipt.
type Statement struct {
	receipt *Receipt // as the predicate has it: without the receipt's own signature
	env     *envelope
}

// Statement makes the receipt's statement and signs it with a receipt key.
func (r *Receipt) Statement(ctx context.Context, signer Signer) (*Statement, error) {
	if r == nil || r.env == nil {
		return nil, fail(CodeInvalidInput, "there is no receipt")
	}
	key, err := publicOf(signer)
	if err != nil {
		return nil, err
	}
	env, err := seal(ctx, typeStatement, r.statement(), RoleReceipt, signer, key)
	if err != nil {
		return nil, err
	}
	return &Statement{receipt: r, env: env}, nil
}

// statement is the canonical payload.
func (r *Receipt) statement() []byte {
	w := &writer{b: make([]byte, 0, len(r.env.payload)+1024)}
	w.open('{')
	w.text("_type", statementType)
	w.name("predicate")
	w.open('{')
	w.raw("receipt", r.env.payload)
	w.digest("receiptDigest", r.digest)
	w.close('}')
	w.text("predicateType", StatementPredicateType)
	w.name("subject")
	w.open('[')
	subject := func(name string, d Digest) {
		w.open('{')
		w.name("digest")
		w.open('{')
		w.text(StatementDigestName, hex.EncodeToString(d[:]))
		w.close('}')
		w.text("name", name)
		w.close('}')
	}
	subject("input", r.input)
	if !r.result.IsZero() {
		subject("result", r.result)
	}
	w.close(']')
	w.close('}')
	return w.b
}

// ParseStatement reads a statement's envelope. Nothing in it is believed: it is made anew from the receipt in its predicate,
// and has to be the same in every byte. It verifies no signature: Verify does.
func ParseStatement(b []byte) (*Statement, error) {
	env, err := parseEnvelope(b, typeStatement)
	if err != nil {
		return nil, err
	}
	r, err := env.payloadReader()
	if err != nil {
		return nil, err
	}
	var m [4]value
	r.members(r.root(), m[:], "_type", "predicate", "predicateType", "subject")
	var p [2]value
	r.members(m[1], p[:], "receipt", "receiptDigest")
	r.literal(m[0], statementType)
	r.literal(m[2], StatementPredicateType)
	r.digest(p[1])
	r.elements(m[3], 2)
	if r.err != nil {
		return nil, r.err
	}
	receipt, err := readReceipt(&envelope{typ: typeReceipt, payload: r.raw(p[0])})
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(receipt.statement(), env.payload) {
		return nil, fail(CodeIntegrityFailed, "the statement is not what its receipt gives")
	}
	return &Statement{receipt: receipt, env: env}, nil
}

// Verify checks that a receipt key of the ring signed the statement. It proves what the key's owner states of the receipt;
// only a bundle proves the receipt.
func (s *Statement) Verify(ring *KeyRing) error {
	if s == nil || s.env == nil {
		return fail(CodeInvalidInput, "there is no statement")
	}
	sig, err := s.env.single()
	if err != nil {
		return err
	}
	key, err := ring.verify(s.env.message(RoleReceipt), sig)
	if err != nil {
		return err
	}
	return key.MayAct(s.receipt.tenant, s.receipt.issued)
}

// ReceiptDigest returns the digest of the receipt that the statement is about.
func (s *Statement) ReceiptDigest() Digest { return s.receipt.digest }

// Envelope returns a copy of the signed envelope's bytes, which ParseStatement reads.
func (s *Statement) Envelope() []byte { return slices.Clone(s.env.canon) }
