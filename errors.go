package counterfoil

import (
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Code is the stable name of one kind of failure. The list is append-only; docs/errors.md explains each.
// A Code is itself an error, so that errors.Is(err, CodeAlreadyUsed) works on every error of this package.
type Code string

// The codes. Those before CodeExecutionFailed say that nothing happened and no use was spent, unless their comment
// says otherwise.
const (
	CodeInvalidInput     Code = "invalid-input"     // the input's form is wrong
	CodePolicyDenied     Code = "policy-denied"     // the policy does not allow this
	CodeIntegrityFailed  Code = "integrity-failed"  // a digest or a binding does not match
	CodeContextMismatch  Code = "context-mismatch"  // the source is no longer the one that was planned for
	CodeApprovalExpired  Code = "approval-expired"  // at or after the approval's end
	CodeNotYetValid      Code = "not-yet-valid"     // before the approval's beginning
	CodeSelfApproval     Code = "self-approval"     // the approver is the plan's actor
	CodeSignatureInvalid Code = "signature-invalid" // no acceptable key made this signature
	CodeRevoked          Code = "revoked"           // the approval, its key or its actor was revoked
	CodeAlreadyUsed      Code = "already-used"      // the use was spent before
	CodeClock            Code = "clock"             // the clocks disagree too far to decide
	CodeAborted          Code = "aborted"           // cancelled by the caller before the effect; spent only if a receipt comes with it
	CodeUnavailable      Code = "unavailable"       // a part that must answer did not; nothing was recorded
	CodeExecutionFailed  Code = "execution-failed"  // the use is spent; the executor refused or reported a failure
	CodeReceiptFailed    Code = "receipt-failed"    // the use is spent; the outcome could not be recorded yet
	CodeUnknownOutcome   Code = "unknown-outcome"   // something may have happened: reconcile, never retry blindly
	CodeInternal         Code = "internal"          // a fault of ours
	CodeQuorumMissing    Code = "quorum-missing"    // too few have signed the approval; no use was spent
)

// Error makes a Code an error.
func (c Code) Error() string { return string(c) }

// Codes returns every code, in the order of their declaration.
func Codes() []Code {
	return []Code{
		CodeInvalidInput, CodePolicyDenied, CodeIntegrityFailed, CodeContextMismatch, CodeApprovalExpired, CodeNotYetValid,
		CodeSelfApproval, CodeSignatureInvalid, CodeRevoked, CodeAlreadyUsed, CodeClock, CodeAborted, CodeUnavailable,
		CodeExecutionFailed, CodeReceiptFailed, CodeUnknownOutcome, CodeInternal,
		CodeQuorumMissing,
	}
}

// Error is what every function of this package fails with.
type Error struct {
	Code Code   // what kind of failure
	Path string // JSON pointer into the input ("" is the whole), bounded and escaped
	Msg  string // one lower-case sentence, safe to send: no secret, no echo of the input
	Err  error  // the cause: to be logged, never sent
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Code))
	if e.Path != "" {
		b.WriteString(" at ")
		b.WriteString(e.Path)
	}
	b.WriteString(": ")
	b.WriteString(e.Msg)
	return b.String()
}

// Unwrap returns the code and, where there is one, the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Code}
	}
	return []error{e.Code, e.Err}
}

// CodeOf returns the code that err carries, or CodeInternal for an error that carries none, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if c, ok := errors.AsType[Code](err); ok { // an *Error's own code comes before its cause's
		return c
	}
	return CodeInternal
}

func fail(code Code, msg string) *Error { return &Error{Code: code, Msg: msg} }

func failAt(code Code, path, msg string) *Error { return &Error{Code: code, Path: path, Msg: msg} }

func failWith(code Code, msg string, cause error) *Error {
	return &Error{Code: code, Msg: msg, Err: cause}
}

// under moves a fault one step down: it was found in the member or element that segment names.
func (e *Error) under(segment string) *Error {
	e.Path = pathSegment(segment) + e.Path
	return e
}

// pathSegment returns one step of an RFC 6901 pointer.
func pathSegment(s string) string {
	if len(s) > maxPath {
		s = s[:maxPath]
	}
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(s)
}

// maxPath bounds Error.Path: a hostile member name must not travel whole into logs.
const maxPath = 256

// escapePath makes a JSON pointer safe to print: one line, no control, format or separator characters, bounded.
func escapePath(p string) string {
	var b strings.Builder
	for i, r := range p {
		if b.Len() >= maxPath {
			b.WriteString("…")
			break
		}
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(p[i:], "\uFFFD"), !unicode.IsPrint(r):
			b.WriteString(`\u{`)
			b.WriteString(strconv.FormatInt(int64(r), 16))
			b.WriteByte('}')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
