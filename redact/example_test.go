package redact_test

import (
	"fmt"

	"github.com/counterfoil/counterfoil/redact"
)

func ExampleText() {
	s, rep := redact.Text(`dial "postgres://app:s3cret@db.internal:5432/app?sslmode=require": Authorization: Bearer abc, author: bob`)
	fmt.Println(s)
	for _, f := range rep.Findings {
		fmt.Println(f.Kind, f.Count)
	}
	// Output:
	// dial "postgres://app:***@db.internal:5432/app?sslmode=require": Authorization: Bearer ***, author: bob
	// url-user-info 1
	// authorization 1
}

func ExampleValue() {
	doc, rep, err := redact.Value([]byte(`{"layers":[{"url":"https://h.test/?token=t1","owner":"ann"}],"apiKey":"k1"}`))
	fmt.Println(string(doc), err)
	for _, f := range rep.Findings {
		fmt.Println(f.Kind, f.Pointer, f.Count)
	}
	// Output:
	// {"layers":[{"url":"https://h.test/?token=***","owner":"ann"}],"apiKey":"***"} <nil>
	// url-parameter /layers/0/url 1
	// named /apiKey 1
}
