package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"parley/cmd/parley/program"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"${enum}."`
}

// completionScripts ask the very program that is being typed, so that a script
// never lags behind it and works for one that is not on PATH.
var completionScripts = map[string]string{
	"bash": `# parley completion: source <(parley completion bash)
_parley() {
	local IFS=$'\n'
	COMPREPLY=($("${COMP_WORDS[0]/#\~/$HOME}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _parley parley
`,
	"zsh": `#compdef parley
# parley completion: source <(parley completion zsh)
_parley() {
	local -a found
	found=("${(@f)$("${(e)words[1]/#\~/$HOME}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	if [[ -n "${found[1]}" ]]; then compadd -- "${found[@]}"; else _files; fi
}
compdef _parley parley
`,
	"fish": `# parley completion: parley completion fish | source
function __parley
	set -l words (commandline -opc) (commandline -ct)
	(string replace -r '^~' $HOME -- $words[1]) __complete -- $words[2..-1] 2>/dev/null
end
complete -c parley -a '(__parley)'
`,
}

func (c *completionCmd) Run(std *program.Streams) error {
	_, err := fmt.Fprint(std.RawOut, completionScripts[c.Shell])
	return err
}

// completeCmd answers the scripts: one candidate a line for the last word.
type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

func (c *completeCmd) Run(std *program.Streams, app *kong.Kong) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}
	for _, candidate := range candidates(app.Model.Node, words) {
		if err := std.Say("%s", candidate); err != nil {
			return err
		}
	}
	return nil
}

// candidates are what the last of words may become below node.
func candidates(node *kong.Node, words []string) []string {
	var flags []*kong.Flag
	last := len(words) - 1
	positional := 0
	flags = append(flags, node.Flags...)
	for i := 0; i < last; i++ {
		word := words[i]
		if strings.HasPrefix(word, "-") {
			flag := flagNamed(flags, word)
			if flag == nil || flag.IsBool() || strings.Contains(word, "=") {
				continue
			}
			if i++; i == last {
				return choices(flag.Enum, words[last])
			}
			continue
		}
		if child := childNamed(node, word); child != nil {
			node, positional = child, 0
			flags = append(flags, node.Flags...)
			continue
		}
		positional++
	}
	return wordsBelow(node, flags, positional, words[last])
}

func wordsBelow(node *kong.Node, flags []*kong.Flag, positional int, prefix string) []string {
	var found []string
	switch {
	case strings.HasPrefix(prefix, "-"):
		for _, flag := range flags {
			if name := "--" + flag.Name; !flag.Hidden && strings.HasPrefix(name, prefix) {
				found = append(found, name)
			}
		}
	case positional < len(node.Positional):
		return choices(node.Positional[positional].Enum, prefix)
	default:
		for _, child := range node.Children {
			if !child.Hidden && strings.HasPrefix(child.Name, prefix) {
				found = append(found, child.Name)
			}
		}
	}
	slices.Sort(found)
	return found
}

func flagNamed(flags []*kong.Flag, word string) *kong.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	for _, flag := range flags {
		if flag.Name == name || flag.Short != 0 && string(flag.Short) == name {
			return flag
		}
	}
	return nil
}

func childNamed(node *kong.Node, word string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == word {
			return child
		}
	}
	return nil
}

func choices(enum, prefix string) []string {
	var found []string
	for _, value := range strings.Split(enum, ",") {
		if value != "" && strings.HasPrefix(value, prefix) {
			found = append(found, value)
		}
	}
	return found
}
