package mujoco

import (
	"fmt"
	"runtime"

	"scalewm/mujoco/internal/mjc"
)

// ObjType is a kind of named object, as MuJoCo numbers them.
type ObjType int

// The kinds that have names.
const (
	ObjBody     ObjType = 1 // its inertial frame, for Jacobians: the centre of mass
	ObjXBody    ObjType = 2 // a body too: its own frame
	ObjJoint    ObjType = 3
	ObjGeom     ObjType = 5
	ObjSite     ObjType = 6
	ObjCamera   ObjType = 7
	ObjLight    ObjType = 8
	ObjMesh     ObjType = 10
	ObjTexture  ObjType = 13
	ObjMaterial ObjType = 14
	ObjEquality ObjType = 17
	ObjTendon   ObjType = 18
	ObjActuator ObjType = 19
	ObjSensor   ObjType = 20
	ObjKey      ObjType = 24
)

func (t ObjType) String() string {
	if s, ok := objNames[t]; ok {
		return s
	}
	return fmt.Sprintf("object type %d", int(t))
}

var objNames = map[ObjType]string{
	ObjBody: "body", ObjXBody: "body", ObjJoint: "joint", ObjGeom: "geom", ObjSite: "site", ObjCamera: "camera",
	ObjLight: "light", ObjMesh: "mesh", ObjTexture: "texture", ObjMaterial: "material", ObjEquality: "equality",
	ObjTendon: "tendon", ObjActuator: "actuator", ObjSensor: "sensor", ObjKey: "keyframe",
}

// ID is the number of a named object: its row in the arrays of its kind.
func (m *Model) ID(t ObjType, name string) (int, error) {
	if m.c == nil {
		return 0, ErrClosed
	}
	id := mjc.ID(m.c, int(t), name)
	runtime.KeepAlive(m)
	if id < 0 {
		return 0, fmt.Errorf("mujoco: the model has no %s named %q", t, name)
	}
	return id, nil
}

// Name is the name of an object, "" if it has none or does not exist.
func (m *Model) Name(t ObjType, id int) string {
	m.base()
	defer runtime.KeepAlive(m)
	return mjc.Name(m.c, int(t), id)
}

// JointType is how a joint moves.
type JointType int32

// The joints, with their widths in qpos and qvel.
const (
	Free  JointType = iota // 7, 6
	Ball                   // 4, 3
	Slide                  // 1, 1
	Hinge                  // 1, 1
)

// Joint says where a joint is in qpos (nq) and qvel (nv).
type Joint struct {
	ID         int
	Type       JointType
	QPos, QVel int // first entry
	NPos, NVel int // number of entries
}

// Joint finds a joint by name.
func (m *Model) Joint(name string) (Joint, error) {
	id, err := m.ID(ObjJoint, name)
	if err != nil {
		return Joint{}, err
	}
	j := Joint{ID: id, Type: JointType(m.JntType()[id]), QPos: int(m.JntQPosAdr()[id]), QVel: int(m.JntDofAdr()[id])}
	j.NPos = [...]int{7, 4, 1, 1}[j.Type]
	j.NVel = [...]int{6, 3, 1, 1}[j.Type]
	return j, nil
}

// Sensor says where a sensor's values are in sensordata.
type Sensor struct{ ID, At, N int }

// Sensor finds a sensor by name.
func (m *Model) Sensor(name string) (Sensor, error) {
	id, err := m.ID(ObjSensor, name)
	if err != nil {
		return Sensor{}, err
	}
	return Sensor{id, int(m.SensorAdr()[id]), int(m.SensorDim()[id])}, nil
}
