package upstream

import (
	"slices"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// Identity returns the canonical document that tells a child from every other: its command line, its working directory
// and the names of the environment variables that were set for it (not their values, which may be secrets, and not
// those that it merely inherits, which differ from one terminal to the next).
func Identity(argv []string, dir string, envNames []string) ([]byte, error) {
	names := slices.Clone(envNames)
	slices.Sort(names)
	return counterfoil.Canonicalize(jsonrpc.Object([]jsonrpc.Member{
		{Name: "kind", Value: jsonrpc.Quote("stdio")},
		{Name: "argv", Value: quoteAll(argv)},
		{Name: "dir", Value: jsonrpc.Quote(dir)},
		{Name: "env", Value: quoteAll(slices.Compact(names))},
	}))
}

func quoteAll(texts []string) []byte {
	quoted := make([][]byte, len(texts))
	for i, t := range texts {
		quoted[i] = jsonrpc.Quote(t)
	}
	return jsonrpc.Batch(quoted)
}
