package counterfoil

import (
	"bytes"
	"errors"
	"hash"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of a result that is JSON. Its bytes are bounded by what was approved.
const (
	maxResultNodes = MaxArgumentNodes
	maxResultDepth = MaxArgumentDepth
)

// A Result is what an executor brings back.
type Result struct {
	Value     []byte // the raw bytes of the result, as they will be relayed
	Rows      int64  // counted on Value
	Uncounted bool   // Rows could not be counted; the receipt says so
	Failed    bool   // the tool ran and reported a failure; Value is its report
	JSON      bool   // Value is one JSON text, and is not accepted if it is none or has too many values or is too deep

	// Of a result that was cut, as a ResultWriter does: how many bytes there were, more than Value has, and the digest of
	// them all. Such a result is never accepted; the receipt says what there was.
	Observed int64
	Whole    Digest
}

// size returns how many bytes there were, those that were cut included.
func (r *Result) size() int64 { return min(max(r.Observed, int64(len(r.Value))), maxSafeInteger) }

// cut reports whether Value is not all of the result.
func (r *Result) cut() bool { return r.Observed > int64(len(r.Value)) }

// digest returns the digest of all bytes, those that were cut included; zero if there is no result.
func (r *Result) digest() Digest {
	switch {
	case r.cut():
		return r.Whole
	case r.Value != nil:
		return ResultDigest(r.Value)
	default:
		return Digest{}
	}
}

// A ResultWriter takes a result as it arrives. It holds no more than was approved: at the first byte beyond, it lets go of
// everything and keeps on counting and digesting alone, so that the receipt can say what there was. It is not safe for
// concurrent use.
type ResultWriter struct {
	most int64
	held []byte
	seen int64
	sum  hash.Hash
}

// NewResultWriter makes a writer for a result of at most limit.Bytes.
func NewResultWriter(limit Limit) *ResultWriter {
	return &ResultWriter{most: limit.Bytes, held: []byte{}, sum: newDigest(domainResult)}
}

// Write implements io.Writer. Beyond the limit it takes p all the same, and returns an error, at which io.Copy stops. Who
// writes on nevertheless is counted to the end.
func (w *ResultWriter) Write(p []byte) (int, error) {
	w.sum.Write(p)
	w.seen += int64(len(p))
	if w.seen > w.most {
		w.held = nil
		return len(p), fail(CodePolicyDenied, "the result is larger than what was approved")
	}
	w.held = append(w.held, p...)
	return len(p), nil
}

// Result returns what was written so far, with the rows that the caller counted in it.
func (w *ResultWriter) Result(rows int64) Result {
	if w.held != nil {
		return Result{Value: w.held, Rows: rows}
	}
	r := Result{Rows: rows, Observed: w.seen}
	w.sum.Sum(r.Whole[:0])
	return r
}

// faultInJSON returns a sentence if b is not one JSON text within the bounds of results. It takes no memory for what it
// reads.
func faultInJSON(b []byte) string {
	d := jsontext.NewDecoder(bytes.NewBuffer(b), jsontext.AllowDuplicateNames(true))
	for nodes := 0; ; {
		token, err := d.ReadToken()
		depth := d.StackDepth()
		kind, length := d.StackIndex(depth)
		switch {
		case errors.Is(err, io.EOF) && length == 1:
			return ""
		case err != nil:
			return "the result is not JSON"
		case token.Kind() == '}' || token.Kind() == ']' || kind == '{' && length%2 == 1:
			continue // the end of a value, or a name
		case token.Kind() == '{' || token.Kind() == '[':
			depth--
		}
		nodes++
		if nodes > maxResultNodes || depth > maxResultDepth {
			return "the result has too many values or is nested too deep"
		}
	}
}
