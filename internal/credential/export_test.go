package credential

import "context"

// Occupy takes all places of a hasher until the returned function is called.
func (h *Hasher) Occupy() (free func()) {
	n := 0
	for ; len(h.queue) < cap(h.queue); n++ {
		h.queue <- struct{}{}
	}
	return func() {
		for range n {
			<-h.queue
		}
	}
}

// ParseStored reads what is kept of a password, and writes it again.
func ParseStored(text string) (again string, ok bool) {
	s, ok := parseStored(text)
	return s.String(), ok
}

// ParseSecret reads a secret of the prefix, and writes it again.
func ParseSecret(prefix, text string) (again string, ok bool) {
	raw, ok := parse(prefix, text)
	return format(prefix, raw).text, ok
}

// Same hashes a password and verifies it.
func (h *Hasher) Same(ctx context.Context, password string) bool {
	hashed, err := h.hash(ctx, Secret{password})
	if err != nil {
		return false
	}
	ok, current, err := h.verify(ctx, hashed, Secret{password})
	return ok && current && err == nil
}
