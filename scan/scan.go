package scan

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// Severity says how strongly a finding speaks. The zero value is invalid.
type Severity uint8

// The severities. Low is a note: it doesn't make a text unsafe. From Medium upwards it does.
const (
	SeverityLow Severity = iota + 1
	SeverityMedium
	SeverityHigh
	SeverityCritical
)

// String returns "low", "medium", "high" or "critical", and "invalid" for anything else.
func (s Severity) String() string {
	switch s {
	case SeverityLow:
		return "low"
	case SeverityMedium:
		return "medium"
	case SeverityHigh:
		return "high"
	case SeverityCritical:
		return "critical"
	default:
		return "invalid"
	}
}

// Family groups patterns by what they attempt. The zero value is invalid.
type Family uint8

// The families. A pattern found only after decoding is an encoded payload, whatever its family in plain text.
const (
	FamilySystemOverride Family = iota + 1
	FamilyDelimiterInjection
	FamilyInstructionOverride
	FamilyEncodedPayload
	FamilyHiddenText
	FamilyToolPoisoning
	FamilyExfiltration
	FamilyCredentialRequest
	FamilyOperator // a pattern of the operator's own
)

// String returns the family's stable label, such as "system_prompt_override", and "invalid" for anything else.
func (f Family) String() string {
	switch f {
	case FamilySystemOverride:
		return "system_prompt_override"
	case FamilyDelimiterInjection:
		return "delimiter_injection"
	case FamilyInstructionOverride:
		return "instruction_override"
	case FamilyEncodedPayload:
		return "encoded_payload"
	case FamilyHiddenText:
		return "hidden_text"
	case FamilyToolPoisoning:
		return "tool_poisoning"
	case FamilyExfiltration:
		return "exfiltration"
	case FamilyCredentialRequest:
		return "credential_request"
	case FamilyOperator:
		return "operator_pattern"
	default:
		return "invalid"
	}
}

// ParseSeverity returns the severity that String calls by this name.
func ParseSeverity(name string) (Severity, error) {
	for s := SeverityLow; s <= SeverityCritical; s++ {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, errors.New("scan: no such severity")
}

// ParseFamily returns the family that String calls by this name.
func ParseFamily(name string) (Family, error) {
	for f := FamilySystemOverride; f <= FamilyOperator; f++ {
		if f.String() == name {
			return f, nil
		}
	}
	return 0, errors.New("scan: no such family")
}

// A Finding is one place where a pattern was found.
type Finding struct {
	Pattern  string // the pattern's stable name, such as "ignore_previous_instructions"
	Family   Family
	Severity Severity
	Pointer  string // RFC 6901 pointer to the value the finding begins in; "" in plain text
	InName   bool   // the finding begins in the name of the member that Pointer names, not in its value
	Offset   int    // in bytes from the start of the string as it arrived (of a JSON string: unescaped)
	End      int    // one past the last byte in that string; the string's length if the finding runs into the next one
	Decoded  string // how it had to be decoded, outermost first, such as "base64 > hex"; "" if it stood there plainly
	Excerpt  string // of decoded and of hidden text: what was found, at most 120 bytes, as data to be escaped; else ""
}

// What a Result can say under Unscannable.
const (
	UnscannableNoScanner = "no-scanner" // the Scanner is nil or wasn't made by New
	UnscannableCancelled = "cancelled"  // the context ended
	UnscannableWork      = "work"       // decoding would cost more than the input's size allows
	UnscannableDepth     = "depth"      // encodings are nested deeper than is followed
	UnscannableNotJSON   = "not-json"   // ScanValue was given something other than one strict JSON document
	UnscannableNesting   = "nesting"    // the JSON document is nested too deeply
	UnscannableSize      = "size"       // the input has more than MaxBytes
)

// A Result is what a scan found. The zero value is not safe.
type Result struct {
	Safe        bool      // everything was looked at, and no finding is of medium severity or more
	Findings    []Finding // by place, then by name; at most MaxFindings, notes give way first
	Truncated   bool      // there were more
	Unscannable string    // the bound that was met, one of the Unscannable constants; Safe is false then
}

// MaxBytes bounds one input.
const MaxBytes = 256 << 20

// MaxFindings bounds the findings of one result.
const MaxFindings = 100

// A Scanner holds the compiled rules. It doesn't change after New, so any number of goroutines may share one.
type Scanner struct {
	fold     *folder
	dict     *dictionary
	rules    *ruleSet
	base64   *alphabet64
	operator []compiled
}

// New returns a Scanner with the built-in rules.
func New() *Scanner {
	f := newFolder()
	return &Scanner{fold: f, dict: newDictionary(f), rules: newRuleSet(), base64: newAlphabet64()}
}

// Scan looks for injection in one text. Any string will do; invalid UTF-8 is looked at too.
func (s *Scanner) Scan(ctx context.Context, text string) Result {
	if s == nil || s.dict == nil {
		return Result{Unscannable: UnscannableNoScanner}
	}
	if len(text) > MaxBytes {
		return Result{Unscannable: UnscannableSize}
	}
	r := newRun(ctx, s, len(text))
	r.scan(&layer{text: text, leaves: []leaf{{size: len(text)}}})
	return r.result()
}

// result orders and bounds what was found.
func (r *run) result() Result {
	fs := r.found
	slices.SortFunc(fs, func(a, b located) int {
		switch {
		case a.leaf != b.leaf:
			return a.leaf - b.leaf
		case a.Offset != b.Offset:
			return a.Offset - b.Offset
		case a.Pattern != b.Pattern:
			return strings.Compare(a.Pattern, b.Pattern)
		case a.Decoded != b.Decoded:
			return strings.Compare(a.Decoded, b.Decoded)
		}
		return a.End - b.End
	})
	fs = slices.CompactFunc(fs, func(a, b located) bool {
		return a.leaf == b.leaf && a.Offset == b.Offset && a.Pattern == b.Pattern && a.Decoded == b.Decoded
	})
	res := Result{Safe: r.stopped == "" && r.worst < SeverityMedium, Truncated: r.dropped, Unscannable: r.stopped}
	serious := 0
	for _, f := range fs {
		if f.Severity >= SeverityMedium {
			serious++
		}
	}
	notes := max(0, MaxFindings-serious)
	for _, f := range fs {
		left := &serious
		if f.Severity < SeverityMedium {
			left = &notes
		}
		if *left == 0 || len(res.Findings) == MaxFindings {
			res.Truncated = true
			continue
		}
		*left--
		res.Findings = append(res.Findings, f.Finding)
	}
	return res
}
