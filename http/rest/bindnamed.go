package rest

import (
	"errors"
	"reflect"
	"strings"

	"parley/client/parley"
)

var agentID, groupID = reflect.TypeFor[parley.AgentID](), reflect.TypeFor[parley.GroupID]()

// nobody is the id that a handle without an agent or a group stands for: handlers then refuse it
// as they refuse any unknown id, in the order of their own checks. No id is generated with this
// value. // source: RFC 9562 section 5.10
var nobody = parley.AnyID{
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
}

// MsgNamed is the fault of a text in a path that names neither an id nor a handle.
const MsgNamed = "Input should be a handle, such as name@org.domain, or a valid UUID"

// bindNamed reads the id of an agent or a group, or a handle in its place. The # of a group's
// handle may be left out, because in a path it must be percent-encoded.
func (f *field) bindNamed(c *Call, text string, v reflect.Value, at *place, faults *SchemaError) error {
	if !strings.Contains(text, "@") {
		if id, err := parley.ParseID[parley.AnyID](text); err == nil {
			setID(v, id)
		} else {
			faults.add(at, FaultUUIDParsing, MsgNamed)
		}
		return nil
	}
	if f.ofGroup && text[0] != '#' {
		text = "#" + text
	}
	h, err := parley.ParseHandle(text)
	if err != nil {
		faults.add(at, FaultValue, parley.ErrBadHandle.Text)
		return nil
	}
	c.GroupByHandle = c.GroupByHandle || f.ofGroup
	id, err := nobody, parley.ErrNotFound
	if h.Group == f.ofGroup && c.host.Resolve != nil {
		id, err = c.host.Resolve(c, h)
	}
	if errors.Is(err, parley.ErrNotFound) {
		id, err = nobody, nil
	}
	setID(v, id)
	return err
}

func setID(v reflect.Value, id parley.AnyID) { v.Set(reflect.ValueOf(id).Convert(v.Type())) }
