package governance

import (
	"slices"

	"github.com/counterfoil/counterfoil"
)

// hints are what a server says about the effect of its own tool.
type hints struct {
	destructive bool // destructiveHint: true
	writes      bool // readOnlyHint: false
	odd         bool // annotations of a form that MCP doesn't know
}

func readHints(definition map[string]any) hints {
	v, ok := definition["annotations"]
	if !ok {
		return hints{}
	}
	a, ok := v.(map[string]any)
	if !ok {
		return hints{odd: true}
	}
	var h hints
	if v, ok := a["destructiveHint"]; ok {
		b, isBool := v.(bool)
		h.destructive, h.odd = b, !isBool
	}
	if v, ok := a["readOnlyHint"]; ok {
		b, isBool := v.(bool)
		h.writes, h.odd = isBool && !b, h.odd || !isBool
	}
	return h
}

// raise returns the effect that is left of e once the server's own claims are taken for true where they make it worse.
// A claim that something is harmless changes nothing.
func (h hints) raise(e counterfoil.Effect) (raised counterfoil.Effect, why string) {
	switch {
	case !slices.Contains(counterfoil.Effects(), e):
		return counterfoil.EffectDestructive, "its effect class is not known"
	case e.Class() == counterfoil.ClassDestructive:
		return e, ""
	case h.odd:
		return counterfoil.EffectDestructive, "its annotations can't be read"
	case h.destructive:
		return counterfoil.EffectDestructive, "the server itself calls it destructive"
	case h.writes && e.Class() == counterfoil.ClassRead:
		return counterfoil.EffectMutation, "the server itself says that it writes"
	}
	return e, ""
}
