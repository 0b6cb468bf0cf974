package gateway

import (
	"github.com/go-json-experiment/json"

	"github.com/counterfoil/counterfoil"
)

// What the stores must read alike in the rows that they keep.

// MergePins adds to the known pins those of tools that they lack, and returns all in canonical form. A pin that is there is
// never changed. Nil are no pins; anything else but an object of texts is CodeInvalidInput.
func MergePins(known, seen []byte) ([]byte, error) {
	pins, err := parsePins(seen)
	if err != nil {
		return nil, err
	}
	old, err := parsePins(known)
	if err != nil {
		return nil, err
	}
	for tool, digest := range old {
		pins[tool] = digest
	}
	b, err := json.Marshal(pins)
	if err != nil {
		return nil, &counterfoil.Error{Code: counterfoil.CodeInternal, Msg: "the pins could not be written down", Err: err}
	}
	return counterfoil.Canonicalize(b)
}

// CheckPins returns the error that MergePins would.
func CheckPins(b []byte) error {
	_, err := parsePins(b)
	return err
}

func parsePins(b []byte) (map[string]string, error) {
	pins := map[string]string{}
	if b == nil {
		return pins, nil
	}
	if err := json.Unmarshal(b, &pins); err != nil || pins == nil {
		return nil, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: "pins are an object of digests by tool"}
	}
	return pins, nil
}

// Describe takes what lists say of a step out of the execution's dry run. What can't be read is left empty: it decides
// nothing.
func (x *Execution) Describe(step string) {
	p, err := counterfoil.ParsePolicy(x.Policy)
	if err != nil {
		return
	}
	d, err := counterfoil.ParseDryRun(x.DryRun, p)
	if err != nil {
		return
	}
	for _, s := range d.Plan().Steps() {
		if s.ID == step {
			x.Upstream, x.Tool, x.Effect = s.Source.Attribution, s.Tool, s.Effect
		}
	}
}
