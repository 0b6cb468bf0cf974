package counterfoiltest

import "slices"

// Forget loses the log.
func (l *Ledger) Forget() { l.events = nil }

// Repeat writes the log once more.
func (l *Ledger) Repeat() { l.events = append(slices.Clone(l.events), l.events...) }

// Lose loses the uses.
func (l *Ledger) Lose() { clear(l.uses) }

// Spoil breaks each event.
func (l *Ledger) Spoil() {
	for _, e := range l.events {
		e[0] = '['
	}
}
