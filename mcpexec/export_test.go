package mcpexec

// Judge tells what a result is: "answer", "report" or "unfinished".
func Judge(result []byte) (string, error) {
	k, err := kindOf(result)
	return [...]string{"", "answer", "report", "unfinished"}[k], err
}
