# Everything a contributor and the CI run. "make" alone builds.
.PHONY: build run test prereqs vet cover race portable lint bench fuzz soak clean

FUZZTIME ?= 10m
COUNT    ?= 1
GOLANGCI  = go tool -modfile=tools/go.mod golangci-lint

build:
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/...

# A first look: a gate, its console and a sample server, in a state directory of their own.
run: build
	bin/counterfoil quickstart

test: prereqs vet
	go test -shuffle=on ./...
	scripts/cover
	scripts/race
	$(MAKE) portable

prereqs:
	scripts/prereqs

vet:
	go vet ./...

# The trust boundary is the module's root package: a test reaches every statement of it.
cover: prereqs
	scripts/cover

race: prereqs
	scripts/race

# What we promise to build on and for: without a C compiler, and on the other two systems.
portable:
	CGO_ENABLED=0 go build ./...
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 go build ./...
	CGO_ENABLED=0 GOOS=windows GOARCH=amd64 go build ./...

lint:
	@files=$$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l); \
		test -z "$$files" || { printf 'gofmt: not formatted:\n%s\n' "$$files"; exit 1; }
	go mod tidy -diff
	scripts/generate-clean
	$(GOLANGCI) run ./...

# Compare two runs of "make bench COUNT=10" with benchstat before a claim of speed.
bench:
	go test -run '^$$' -bench . -benchmem -count $(COUNT) ./...

# Every fuzz target in turn, FUZZTIME each.
fuzz:
	scripts/fuzz $(FUZZTIME)

# The tests that have a long form, in it: kills, contention, damage. What they showed last stands in docs/reliability.md.
soak: prereqs
	SOAK=1 go test -timeout 6h -v ./cmd/counterfoil ./internal/store/...

clean:
	rm -rf bin testdata/npm/node_modules
