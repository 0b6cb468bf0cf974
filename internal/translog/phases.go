package translog

import (
	"hash/maphash"

	"github.com/counterfoil/counterfoil"
)

const (
	// maxOpen bounds the executions that are under way at once.
	maxOpen = 1 << 20
	// recently is of how many executions it is known that they have ended.
	recently = 1 << 16
)

// phases follows executions from start to end, in bounded memory: it knows all that are under way, and of the last ones
// that they have ended.
type phases struct {
	open  map[string]counterfoil.Digest // by execution: its use
	ended []uint64                      // hashes of executions, each in the place that it says
	seed  maphash.Seed
}

func newPhases() phases {
	return phases{open: map[string]counterfoil.Digest{}, ended: make([]uint64, recently), seed: maphash.MakeSeed()}
}

// next returns what is wrong with an event after those before it, "" for nothing. Where bodies are missing, a start may be
// among them.
func (p *phases) next(e *counterfoil.LoggedEvent, missing bool) string {
	if e.Phase != counterfoil.PhaseStarted && e.Phase != counterfoil.PhaseCompleted {
		return ""
	}
	use, open := p.open[e.ExecutionID]
	hash := maphash.String(p.seed, e.ExecutionID)
	ended := &p.ended[hash%recently]
	switch {
	case e.Phase == counterfoil.PhaseStarted && (open || *ended == hash):
		return "its execution has started before"
	case e.Phase == counterfoil.PhaseStarted && len(p.open) >= maxOpen:
		return "too many executions are under way to follow them"
	case e.Phase == counterfoil.PhaseStarted:
		p.open[e.ExecutionID] = e.UseDigest
		return ""
	}
	delete(p.open, e.ExecutionID)
	twice := !open && *ended == hash
	*ended = hash
	switch {
	case twice:
		return "its execution was completed before"
	case !open && !missing:
		return "its execution was completed without a start"
	case open && use != e.UseDigest:
		return "its execution was completed by another use than it was started with"
	}
	return ""
}
