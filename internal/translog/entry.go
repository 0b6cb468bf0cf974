package translog

import (
	"bytes"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/counterfoil/counterfoil"
)

// An entry is what the check of a log reads of an event's body.
type entry struct {
	Phase       counterfoil.Phase `json:"phase"`
	Tenant      string            `json:"tenant"`
	Audience    string            `json:"audience"`
	ExecutionID string            `json:"executionId"`
	Sequence    int64             `json:"sequence"`
	Time        time.Time         `json:"time"`
	Use         string            `json:"useDigest"`
}

func parseEntry(body []byte) (entry, error) {
	var e entry
	c, err := counterfoil.Canonicalize(body)
	if err != nil {
		return e, err
	}
	if !bytes.Equal(c, body) {
		return e, invalid("an event is written in canonical form")
	}
	return e, json.Unmarshal(body, &e)
}
