// The franz-go peer of the benchmark: kadm behind JSON lines (tests/bench/process.py speaks the other end).
//
// Best use: one client, kept; kadm's plural calls, which batch by coordinator and ask brokers concurrently; coordinators
// stay cached between calls, as franz-go does by itself. Defaults but for the timeout of a request, which is raised so
// that one request for thousands of groups is not given up while the broker works on it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const callTimeout = 300 * time.Second

type command struct {
	Op     string `json:"op"`
	Groups string `json:"groups"`
}

type answer struct {
	Seconds     float64 `json:"seconds"`
	ReadSeconds float64 `json:"read_seconds"`
	Groups      int     `json:"groups"`
	Offsets     int     `json:"offsets"`
	Checksum    int64   `json:"checksum"`
	Errors      int     `json:"errors"`
	Error       string  `json:"error,omitempty"`
}

func (a *answer) fail(err error) {
	if a.Errors == 0 {
		a.Error = err.Error()
	}
	a.Errors++
}

// A call returns what reads its result; only the call itself is what a peer is timed for.
type call func(ctx context.Context, admin *kadm.Client, groups []string) func(*answer)

var calls = map[string]call{
	"list_offsets":      listOffsets,
	"find_coordinators": findCoordinators,
	"describe":          describe,
	"delete":            deleteGroups,
	"list_groups":       listGroups,
}

func listOffsets(ctx context.Context, admin *kadm.Client, groups []string) func(*answer) {
	fetched := admin.FetchManyOffsets(ctx, groups...)
	return func(a *answer) {
		for _, group := range fetched {
			if group.Err != nil {
				a.fail(group.Err)
				continue
			}
			a.Groups++
			for _, partitions := range group.Fetched {
				for _, offset := range partitions {
					if offset.Err != nil {
						a.fail(offset.Err)
						continue
					}
					a.Offsets++
					a.Checksum += offset.At
				}
			}
		}
	}
}

func findCoordinators(ctx context.Context, admin *kadm.Client, groups []string) func(*answer) {
	found := admin.FindGroupCoordinators(ctx, groups...)
	return func(a *answer) {
		for _, coordinator := range found {
			if coordinator.Err != nil {
				a.fail(coordinator.Err)
				continue
			}
			a.Groups++
			a.Checksum += int64(coordinator.NodeID)
		}
	}
}

func describe(ctx context.Context, admin *kadm.Client, groups []string) func(*answer) {
	described, err := admin.DescribeGroups(ctx, groups...)
	return func(a *answer) {
		if err != nil {
			a.fail(err)
		}
		for _, group := range described {
			if group.Err != nil {
				a.fail(group.Err)
				continue
			}
			if group.State == "Empty" {
				a.Groups++
			}
		}
	}
}

func deleteGroups(ctx context.Context, admin *kadm.Client, groups []string) func(*answer) {
	deleted, err := admin.DeleteGroups(ctx, groups...)
	return func(a *answer) {
		if err != nil {
			a.fail(err)
		}
		for _, group := range deleted {
			if group.Err != nil {
				a.fail(group.Err)
				continue
			}
			a.Groups++
		}
	}
}

func listGroups(ctx context.Context, admin *kadm.Client, _ []string) func(*answer) {
	listed, err := admin.ListGroups(ctx)
	return func(a *answer) {
		if err != nil {
			a.fail(err)
		}
		a.Groups = len(listed)
	}
}

func main() {
	bootstrap := strings.Split(os.Args[1], ",")
	answers := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	_ = answers.Encode(map[string]bool{"ready": true})
	var admin *kadm.Client
	for lines.Scan() {
		var asked command
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		groups := readGroups(asked.Groups)
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		begin := time.Now()
		if admin == nil {
			client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.RequestTimeoutOverhead(callTimeout))
			if err != nil {
				panic(err)
			}
			admin = kadm.NewClient(client)
		}
		read := calls[asked.Op](ctx, admin, groups)
		called := time.Now()
		var result answer
		read(&result)
		result.Seconds = called.Sub(begin).Seconds()
		result.ReadSeconds = time.Since(called).Seconds()
		cancel()
		_ = answers.Encode(result)
	}
}

func readGroups(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		panic(fmt.Sprintf("cannot read the group ids: %v", err))
	}
	return strings.Fields(string(text))
}
