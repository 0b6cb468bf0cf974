package counterfoil

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"hash"
)

// A Digest is SHA-256 over a domain name and canonical bytes: SHA-256("counterfoil/v1/" + role + "\n" + bytes).
// The zero Digest is no digest of anything.
type Digest [sha256.Size]byte

// digestPrefix begins the text form of a Digest; 64 lower-case hex digits follow it and nothing else parses.
const digestPrefix = "sha256:"

// A domain keeps digests of different kinds of documents apart (INV-8 for hashes).
type domain string

const (
	domainPlan       domain = "plan"
	domainPolicy     domain = "policy"
	domainBindings   domain = "bindings"
	domainParameters domain = "parameters"
	domainInput      domain = "input"
	domainDryRun     domain = "dry-run"
	domainApproval   domain = "approval"
	domainUse        domain = "use"
	domainResult     domain = "result"
	domainReceipt    domain = "receipt"
	domainEvent      domain = "event"
	domainToolDef    domain = "tool-definition"
	domainArguments  domain = "arguments"
	domainGrant      domain = "standing-grant"
	domainUpstream   domain = "upstream"
	domainActor      domain = "actor"
	domainKeyID      domain = "key-id"
	domainEvidence   domain = "evidence"
	domainEndpoint   domain = "endpoint"
	domainScopes     domain = "scopes"
	domainValidator  domain = "validator"
	domainLog        domain = "log"
	domainDecision   domain = "decision"
)

// digest is the only maker of a Digest from content.
func digest(d domain, canonical []byte) Digest {
	h := sha256.New()
	h.Write(d.head())
	h.Write(canonical)
	var out Digest
	h.Sum(out[:0])
	return out
}

// newDigest begins a digest whose content comes piece by piece.
func newDigest(d domain) hash.Hash {
	h := sha256.New()
	h.Write(d.head())
	return h
}

// head is what comes before the content.
func (d domain) head() []byte {
	head := make([]byte, 0, 64)
	head = append(head, "counterfoil/v1/"...)
	head = append(head, d...)
	return append(head, '\n')
}

const badDigest = `a digest is "sha256:" and 64 lower-case hex digits, not all of them zero`

// ParseDigest reads the one text form of a digest: "sha256:" and 64 lower-case hex digits. The zero Digest has none.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	if !parseDigest(&d, []byte(s)) {
		return Digest{}, fail(CodeInvalidInput, badDigest)
	}
	return d, nil
}

func parseDigest(d *Digest, s []byte) bool {
	return d.parseHex(s, digestPrefix) && !d.IsZero()
}

// parseHex reads a prefix and the hex digits of all bytes, in lower case.
func (d *Digest) parseHex(s []byte, prefix string) bool {
	if len(s) != len(prefix)+2*len(d) || string(s[:len(prefix)]) != prefix {
		return false
	}
	const lower = 0x20 // the bit that the digits have, and of the letters those in lower case
	common := byte(lower)
	for _, c := range s[len(prefix):] {
		common &= c
	}
	_, err := hex.Decode(d[:], s[len(prefix):])
	return err == nil && common == lower
}

// String returns the text form that ParseDigest reads.
func (d Digest) String() string { return string(d.append(make([]byte, 0, 2*len(d)+len(digestPrefix)))) }

func (d Digest) append(dst []byte) []byte {
	return hex.AppendEncode(append(dst, digestPrefix...), d[:])
}

// IsZero reports whether d is the zero Digest, which no content has.
func (d Digest) IsZero() bool { return d == Digest{} }

// Equal compares in constant time.
func (d Digest) Equal(o Digest) bool { return subtle.ConstantTimeCompare(d[:], o[:]) == 1 }

// DefinitionDigest returns the digest of a tool's definition: any strict JSON document, canonicalised first, so that a
// server that only reorders members or changes white space keeps its pin.
func DefinitionDigest(definition []byte) (Digest, error) {
	return digestOf(domainToolDef, definition)
}

// UpstreamDigest returns the digest of an upstream's identity document (launch command, working directory, names of
// environment variables), which tells two upstreams behind the same server program apart.
func UpstreamDigest(identity []byte) (Digest, error) {
	return digestOf(domainUpstream, identity)
}

// RulesDigest returns the digest of the rules document that a host's decision was made under.
func RulesDigest(rules []byte) (Digest, error) {
	return digestOf(domainPolicy, rules)
}

func digestOf(d domain, b []byte) (Digest, error) {
	c, err := Canonicalize(b)
	if err != nil {
		return Digest{}, err
	}
	return digest(d, c), nil
}

// ResultDigest returns the digest of a result's raw bytes, as they were relayed.
func ResultDigest(raw []byte) Digest { return digest(domainResult, raw) }
