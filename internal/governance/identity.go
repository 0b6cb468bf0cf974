package governance

import (
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/counterfoil/counterfoil"
)

// Identity returns the canonical document that tells a stdio server from every other, for [counterfoil.UpstreamDigest]:
// its arguments, its working directory, the names (never the values) of the environment variables given to it, in any
// order. Arguments are taken as they are: a person who writes a secret into a launch command has it in the identity
// document too. Text that isn't UTF-8 is refused, because two different commands could otherwise look the same.
func Identity(argv []string, dir string, envNames []string) ([]byte, error) {
	names := slices.Clone(envNames)
	slices.Sort(names)
	doc := struct {
		Argv      []string `json:"argv"`
		Dir       string   `json:"dir"`
		Env       []string `json:"env"`
		Transport string   `json:"transport"`
	}{Argv: argv, Dir: dir, Env: slices.Compact(names), Transport: "stdio"}
	b, err := json.Marshal(&doc)
	if err != nil {
		return nil, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: "the launch command isn't valid UTF-8", Err: err}
	}
	return counterfoil.Canonicalize(b)
}
