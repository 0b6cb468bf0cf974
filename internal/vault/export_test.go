package vault

// NewScrubber returns a scrubber for one secret.
func NewScrubber(secret string) *Scrubber {
	r := Ref{Name: "key"}
	return newScrubber([]Ref{r}, map[Ref]Value{r: newValue([]byte(secret))}, []Used{{Name: "key", Version: 1}})
}
