package scenario

import (
	"slices"
	"strconv"

	"parley/bench/wire"
)

// listing is a page of the directory.
type listing struct {
	ids    []uuid
	scores []float64
	modes  []string
	total  int // -1 if it is not known
	cursor string
	more   bool
}

// search reads one page of the directory.
func search(conn *wire.HTTP, query string) (*listing, error) {
	answer, err := conn.Do(wire.Request("GET", "/directory/agents?"+query, "", nil, nil))
	if err != nil {
		return nil, err
	}
	return readListing(answer)
}

func readListing(answer wire.Answer) (*listing, error) {
	if answer.Status != 200 {
		err, _ := refusal(answer)
		return nil, err
	}
	return readRows(answer.Body, "items")
}

// readRows reads the rows of an object, and what else a page has.
func readRows(body []byte, list string) (*listing, error) {
	l, walk, listed := &listing{total: -1}, membersOf(body), false
	for {
		name, value, ok := walk.next()
		if !ok {
			break
		}
		switch string(name) {
		case list:
			listed = true
			if err := eachElement(value, l.addRow); err != nil {
				return nil, err
			}
		case "search_mode":
			if err := eachElement(value, func(mode []byte) error {
				l.modes = append(l.modes, string(plainText(mode)))
				return nil
			}); err != nil {
				return nil, err
			}
		case "total":
			if n, err := strconv.Atoi(string(value)); err == nil {
				l.total = n
			}
		case "next_cursor":
			l.cursor = string(plainText(value))
		case "has_more":
			l.more = string(value) == "true"
		}
	}
	if !walk.ended() || !listed {
		return nil, wrong("not a page of the directory")
	}
	return l, nil
}

func (l *listing) addRow(row []byte) error {
	id, _ := memberOf(row, "id")
	known, ok := parseUUID(plainText(id))
	if !ok || slices.Contains(l.ids, known) {
		return wrong("a row without id, or a card that comes twice")
	}
	l.ids = append(l.ids, known)
	score, _ := memberOf(row, "score")
	if n, err := strconv.ParseFloat(string(score), 64); err == nil {
		l.scores = append(l.scores, n)
	}
	return nil
}

// memberOf returns a member of an object, as it is in the text.
func memberOf(object []byte, name string) ([]byte, bool) {
	for walk := membersOf(object); ; {
		each, value, ok := walk.next()
		if !ok {
			return nil, false
		}
		if string(each) == name {
			return value, true
		}
	}
}

// eachElement calls fn with the elements of an array.
func eachElement(array []byte, fn func([]byte) error) error {
	if len(array) < 2 || array[0] != '[' {
		return wrong("not a list")
	}
	for rest := skipBlank(array[1:]); len(rest) > 0 && rest[0] != ']'; {
		value, after, ok := cutValue(rest)
		if !ok {
			return wrong("not a list")
		}
		if err := fn(value); err != nil {
			return err
		}
		if rest = skipBlank(after); len(rest) > 0 && rest[0] == ',' {
			rest = skipBlank(rest[1:])
		}
	}
	return nil
}
