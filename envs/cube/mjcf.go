package cube

import (
	"encoding/xml"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// element is an element of an MJCF document. The package edits scenes as XML trees because
// MuJoCo must receive one complete document.
type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Children []*element `xml:",any"`
}

// readMJCF parses a document.
func readMJCF(files fs.FS, name string) (*element, error) {
	b, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	root := &element{}
	if err := xml.Unmarshal(b, root); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return root, nil
}

// tag returns the element's tag.
func (e *element) tag() string { return e.XMLName.Local }

// get returns the value of an attribute, "" if it is not set.
func (e *element) get(attr string) string {
	for _, a := range e.Attrs {
		if a.Name.Local == attr {
			return a.Value
		}
	}
	return ""
}

// set sets the value of an attribute.
func (e *element) set(attr, value string) {
	for i, a := range e.Attrs {
		if a.Name.Local == attr {
			e.Attrs[i].Value = value
			return
		}
	}
	e.Attrs = append(e.Attrs, xml.Attr{Name: xml.Name{Local: attr}, Value: value})
}

// walk calls f for e and all elements below it, in document order.
func (e *element) walk(f func(*element)) {
	f(e)
	for _, c := range e.Children {
		c.walk(f)
	}
}

// find returns the first element, e included, with a tag and a name; nil if there is none.
func (e *element) find(tag, name string) (found *element) {
	e.walk(func(x *element) {
		if found == nil && x.tag() == tag && x.get("name") == name {
			found = x
		}
	})
	return found
}

// section returns a child of a document by its tag, adding it if it does not exist.
func (e *element) section(tag string) *element {
	for _, c := range e.Children {
		if c.tag() == tag {
			return c
		}
	}
	s := &element{XMLName: xml.Name{Local: tag}}
	e.Children = append(e.Children, s)
	return s
}

// drop removes all elements with one of the tags.
func (e *element) drop(tags ...string) {
	e.walk(func(x *element) {
		x.Children = slices.DeleteFunc(x.Children, func(c *element) bool { return slices.Contains(tags, c.tag()) })
	})
}

// include appends the sections of another document to those of this one. An attribute that
// both set takes the other's value.
func (e *element) include(other *element) {
	for _, theirs := range other.Children {
		ours := e.section(theirs.tag())
		for _, a := range theirs.Attrs {
			// For example the attributes of <option> and <compiler>, which exist once.
			ours.set(a.Name.Local, a.Value)
		}
		ours.Children = append(ours.Children, theirs.Children...)
	}
}

// names are the attributes that contain the name of an element or refer to one.
var names = []string{"name", "class", "childclass", "material", "mesh", "joint", "joint1", "joint2", "body1", "body2", "tendon"}

// attach includes another document below the element at, as dm_control's attach does: in a
// body named by the prefix, and with the prefix added to all names.
func (e *element) attach(at, other *element, prefix string) {
	other.walk(func(x *element) {
		for i, a := range x.Attrs {
			if slices.Contains(names, a.Name.Local) {
				x.Attrs[i].Value = prefix + a.Value
			}
		}
	})
	frame := &element{XMLName: xml.Name{Local: "body"}}
	frame.set("name", prefix)
	// Its bodies move into the frame; all other sections are merged by include.
	world := other.section("worldbody")
	frame.Children, world.Children = world.Children, nil
	at.Children = append(at.Children, frame)
	e.include(other)
}

// locate names meshes after their files, as MuJoCo does, and makes their file names relative
// to the root of the file system. folder is the document's folder.
func (e *element) locate(folder string) {
	for _, m := range e.section("asset").Children {
		if file := m.get("file"); m.tag() == "mesh" && file != "" {
			if m.get("name") == "" {
				m.set("name", strings.TrimSuffix(file, path.Ext(file)))
			}
			m.set("file", path.Join(folder, e.section("compiler").get("meshdir"), file))
		}
	}
	e.section("compiler").set("meshdir", "")
}
