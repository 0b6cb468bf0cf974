package translog

import (
	"fmt"
	"time"
)

// reach judges a checkpoint when the log has come to its size.
func (k *checker) reach(m *mark) {
	m.reached = true
	m.signed = k.signed(m, k.last.At)
	if k.edge.size == m.Size() {
		root, err := k.edge.root()
		m.same = err == nil && root == m.Root()
	}
}

// signed checks a checkpoint's signature, by a key that could sign when the last event of the log that it covers had
// happened, or later.
func (k *checker) signed(m *mark, at time.Time) bool {
	err := m.Verify(k.Ring, k.Audience, k.Tenant, at)
	if err == nil {
		return true
	}
	kind, msg := KindSignature, fmt.Sprintf("the checkpoint of the size %d can't be believed: %v", m.Size(), err)
	if keys, err := m.Signers(k.Ring, k.Audience, k.Tenant); err == nil {
		kind = KindRetiredKey
		msg = fmt.Sprintf("the checkpoint of the size %d is signed with the key %s, which could not when the last of its events had happened",
			m.Size(), keys[0].ID)
	}
	k.find(kind, m.Size(), msg)
	return false
}

// end judges what the log has come to.
func (k *checker) end() *Report {
	r := k.report
	for i := range k.marks[k.next:] {
		m := &k.marks[k.next+i]
		m.signed = k.signed(m, k.last.At)
	}
	k.shortened()
	k.roots()
	k.forks()
	for _, m := range k.marks {
		v := Verdict{Size: m.Size(), Root: m.Root(), Signed: m.signed, Holds: m.signed && m.same}
		r.Checkpoints = append(r.Checkpoints, v)
		if v.Holds {
			r.Proven = v.Size
		}
	}
	if k.Tiles != nil && k.tiles == nil && len(k.marks) > 0 && len(r.Findings) == 0 {
		k.find(KindTiles, k.total(), "the published tiles are those of no checkpoint that was given")
	}
	if len(k.marks) == 0 {
		k.find(KindNoReference, 0, "there is no checkpoint that the log could be held against")
	}
	if k.Progress != nil {
		k.Progress(r.Size, k.total())
	}
	return r
}

// shortened looks for checkpoints that the log does not reach.
func (k *checker) shortened() {
	for i := len(k.marks) - 1; i >= k.next; i-- {
		if m := k.marks[i]; m.signed {
			k.findCount(KindShortened, 0, m.Size(), k.highest,
				fmt.Sprintf("the log has %d events, and its checkpoint has %d", k.highest, m.Size()))
			return
		}
	}
}

// roots looks for checkpoints whose root is not that of the events, though nothing was found that explains it. The first
// that does not hold says it all: the later ones can't either.
func (k *checker) roots() {
	holds := int64(0)
	for _, m := range k.marks {
		switch {
		case !m.reached || !m.signed:
		case m.same:
			holds = m.Size()
		case !k.located && !k.contradicted(m):
			k.findCount(KindRoot, m.Size(), 0, 0, fmt.Sprintf(
				"the first %d events are not those of the checkpoint: one from %d to %d was edited, or another log was signed",
				m.Size(), holds+1, m.Size()))
			return
		}
	}
}

// contradicted reports whether a checkpoint that the events do have covers one that they do not have.
func (k *checker) contradicted(m mark) bool { return !m.same && k.against(m) != nil }

func (k *checker) against(m mark) *mark {
	for i := range k.marks {
		if o := &k.marks[i]; o.signed && o.same && o.Size() >= m.Size() {
			return o
		}
	}
	return nil
}

// forks looks for checkpoints that can't both be of one log, whatever its events are.
func (k *checker) forks() {
	for i, m := range k.marks {
		if !m.signed {
			continue
		}
		if o := k.against(m); m.reached && !m.same && o != nil {
			k.find(KindForked, m.Size(), fmt.Sprintf(
				"the checkpoint of the size %d, which the events have, does not continue the signed one of the size %d", o.Size(), m.Size()))
			continue
		}
		for _, o := range k.marks[:i] {
			if o.signed && o.Size() == m.Size() && o.Root() != m.Root() {
				k.find(KindForked, m.Size(), fmt.Sprintf("two checkpoints of the size %d were signed with different roots", m.Size()))
				break
			}
		}
	}
}
