package hooks

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil"
)

// maxAnswer bounds a callback's answer, in bytes.
const maxAnswer = 16 << 10

// A message is what a callback gets.
type message struct {
	Type      string    `json:"type"` // "counterfoil." and the phase
	Timestamp time.Time `json:"timestamp"`
	Data      data      `json:"data"`
}

type data struct {
	Hook      string         `json:"hook"`
	Tenant    string         `json:"tenant"`
	ID        string         `json:"id"`
	Principal string         `json:"principal,omitempty"`
	Method    string         `json:"method,omitempty"`
	Path      string         `json:"path,omitempty"`
	Status    int            `json:"status,omitzero"`
	Upstream  string         `json:"upstream,omitempty"`
	Tool      string         `json:"tool,omitempty"`
	Operation string         `json:"operation,omitempty"`
	Effect    string         `json:"effect,omitempty"`
	Arguments string         `json:"arguments_digest,omitempty"`
	Outcome   string         `json:"outcome,omitempty"`
	Receipt   string         `json:"receipt,omitempty"`
	Payload   jsontext.Value `json:"payload,omitzero"`
}

// answer is what a callback says.
type answer struct {
	Action Action            `json:"action"`
	Reason string            `json:"reason"`
	Notes  map[string]string `json:"notes"`
}

// A callback is a hook elsewhere.
type callback struct {
	hook   Hook
	secret Secret
	client *http.Client
	rand   io.Reader
	now    func() time.Time
}

// call sends one message, once. The signature is the only credential that goes along: the receiver needs no other.
func (c *callback) call(ctx context.Context, e Event) (Verdict, error) {
	now := c.now()
	body, err := c.message(e, now)
	if err != nil {
		return Verdict{}, err
	}
	var nonce [16]byte
	if _, err := io.ReadFull(c.rand, nonce[:]); err != nil {
		return Verdict{}, &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "there is no randomness", Err: err}
	}
	id := "msg_" + hex.EncodeToString(nonce[:])
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.hook.URL, bytes.NewReader(body))
	if err != nil {
		return Verdict{}, failure("the callback could not be asked", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "counterfoil")
	req.Header.Set(headerID, id)
	req.Header.Set(headerTimestamp, unix(now))
	req.Header.Set(headerSignature, c.secret.sign(id, now, body))
	resp, err := c.client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the URL, which may be a secret
		}
		return Verdict{}, failure("the callback could not be asked", err)
	}
	text, err := io.ReadAll(resp.Body)
	if closed := resp.Body.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return Verdict{}, failure("the callback's answer could not be read", err)
	}
	if resp.StatusCode/100 != 2 {
		return Verdict{}, failure("the callback answered "+http.StatusText(resp.StatusCode), nil)
	}
	return c.verdict(e.Phase, text)
}

// verdict reads an answer. Only afterwards is an empty one enough: before, silence is no consent.
func (c *callback) verdict(p Phase, text []byte) (Verdict, error) {
	if len(bytes.TrimSpace(text)) == 0 && !p.before() {
		return Verdict{Action: Pass}, nil
	}
	var a answer
	if err := json.Unmarshal(text, &a, json.RejectUnknownMembers(true)); err != nil {
		return Verdict{}, failure("the callback's answer is not what a hook says", err)
	}
	return Verdict(a), nil
}

func (c *callback) message(e Event, now time.Time) ([]byte, error) {
	m := message{
		Type: "counterfoil." + string(e.Phase), Timestamp: now.UTC().Truncate(time.Millisecond),
		Data: data{
			Hook: c.hook.ID, Tenant: e.Tenant, ID: e.ID, Principal: e.Principal, Method: e.Method, Path: e.Path, Status: e.Status,
			Upstream: e.Upstream, Tool: e.Tool, Operation: e.Operation, Effect: e.Effect, Arguments: e.Arguments,
			Outcome: e.Outcome, Receipt: e.Receipt,
		},
	}
	// A path comes from the request as it was: what isn't UTF-8 in it is made visible.
	m.Data.Path = strings.ToValidUTF8(e.Path, "\uFFFD")
	if c.hook.Payload && len(e.Payload) > 0 {
		m.Data.Payload = e.Payload
	}
	body, err := json.Marshal(m)
	if err != nil {
		return nil, failure("the event can't be told to a callback", err)
	}
	return body, nil
}
