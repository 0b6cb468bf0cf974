package scan

type compiled struct{}

func (r *run) operatorPatterns(*layer) {}
