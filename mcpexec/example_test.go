package mcpexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/counterfoil/counterfoil/mcpexec"
)

// An executor for one tool of an MCP server. It goes into counterfoil.Execution; what Call does with the bytes is up to
// the host's MCP client.
func ExampleNew() {
	x, err := mcpexec.New(mcpexec.Options{
		Tool: "read_text_file",
		Parse: func(arguments []byte) error {
			var a struct{ Path string }
			if err := json.Unmarshal(arguments, &a); err != nil {
				return err
			}
			if a.Path == "" {
				return errors.New("there is no path")
			}
			return nil
		},
		Call: func(ctx context.Context, tool string, arguments []byte) ([]byte, error) {
			return nil, errors.New("here the host's client sends tools/call")
		},
		CountRows: func(result []byte) (int64, error) {
			var r struct{ Content []any }
			err := json.Unmarshal(result, &r)
			return int64(len(r.Content)), err
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(x.Tool(), x.Effect())
	_, err = mcpexec.New(mcpexec.Options{Tool: "read_*"})
	fmt.Println(err)
	// Output:
	// read_text_file read
	// invalid-input at /Tool: this is not the name of one tool
}
