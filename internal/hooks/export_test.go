package hooks

// Answer reads what a callback answered in a phase.
func Answer(p Phase, text []byte) (Verdict, error) {
	v, err := (&callback{}).verdict(p, text)
	if err == nil {
		err = v.check()
	}
	return v, err
}

// Reread reads a row's body and writes it again.
func Reread(r Row) ([]byte, error) {
	h, err := hookOf(r)
	if err != nil {
		return nil, err
	}
	return h.body()
}
