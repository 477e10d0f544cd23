// A forklift takes a pallet of 400 kg, drives it back and sets it down: a raycast vehicle, its mast on a hinge with a
// motor, the fork on a slider with a motor.
#include "program.h"

#include <algorithm>

namespace programs {
namespace {

class Forklift final : public Program {
 public:
  Forklift() : Program(1.0 / 60) {
    passive_from = 18;
    box(0, vec(20, 0.5, 20), vec(0, -0.5, 0)).setFriction(1);

    chassis = &box(2500, vec(0.8, 0.4, 1.2), vec(0, 0.95, 0));
    chassis->setActivationState(DISABLE_DEACTIVATION);
    raycaster = std::make_unique<btDefaultVehicleRaycaster>(&world);
    vehicle = std::make_unique<btRaycastVehicle>(tuning, chassis, raycaster.get());
    vehicle->setCoordinateSystem(0, 1, 2);
    for (const double z : {1.0, -1.0})
      for (const double x : {-0.8, 0.8}) {
        btWheelInfo& w =
            vehicle->addWheel(vec(x, -0.2, z), -along_y, -along_x, btScalar(0.35), btScalar(0.4), tuning, z < 0);
        w.m_suspensionStiffness = 80;
        w.m_wheelsDampingRelaxation = w.m_wheelsDampingCompression = btScalar(8);
        w.m_maxSuspensionForce = 40000;
        w.m_frictionSlip = 5;
        w.m_rollInfluence = btScalar(0.1);
      }
    world.addVehicle(vehicle.get());

    btRigidBody& mast = box(60, vec(0.5, 1, 0.05), vec(0, 1.45, 1.35));
    tilt = &hinge(*chassis, mast, vec(0, 0.7, 1.3), along_x);
    tilt->setLimit(btScalar(-0.15), btScalar(0.15));

    auto& tines = shape<btCompoundShape>();
    tines.addChildShape(btTransform(btQuaternion::getIdentity(), vec(0, 0.2, 0)),
                        &shape<btBoxShape>(vec(0.5, 0.25, 0.04)));
    for (const double x : {-0.25, 0.25})
      tines.addChildShape(btTransform(btQuaternion::getIdentity(), vec(x, 0, 0.6)),
                          &shape<btBoxShape>(vec(0.07, 0.03, 0.6)));
    btRigidBody& fork = body(40, tines, vec(0, 0.13, 1.5));
    fork.setActivationState(DISABLE_DEACTIVATION);
    const btTransform up(shortestArcQuat(along_x, along_y), vec(0, 0.5, 1.4));  // travel along its x
    lift = &joint<btSliderConstraint>(mast, fork, in(mast)*up, in(fork)*up, true);
    lift->setLowerLinLimit(btScalar(-0.05));
    lift->setUpperLinLimit(btScalar(1.5));

    auto& pallet = shape<btCompoundShape>();
    pallet.addChildShape(btTransform(btQuaternion::getIdentity(), vec(0, 0.1, 0)),
                         &shape<btBoxShape>(vec(0.6, 0.4, 0.5)));
    for (const double x : {-0.5, 0.5})
      pallet.addChildShape(btTransform(btQuaternion::getIdentity(), vec(x, -0.4, 0)),
                           &shape<btBoxShape>(vec(0.1, 0.1, 0.5)));
    body(400, pallet, vec(0, 0.5, 3.6)).setFriction(btScalar(0.8));
    fork.setFriction(btScalar(0.8));
  }
  ~Forklift() override { world.removeVehicle(vehicle.get()); }

 private:
  // Up to the pallet, lift and lean back, reverse, stop, set down.
  void control() override {
    drive(t < 1 ? 0 : t < 3.2 ? 0.6 : t < 8 ? 0 : t < 11 ? -0.8 : 0);
    lift->setPoweredLinMotor(true);
    lift->setMaxLinMotorForce(15000);
    lift->setTargetLinMotorVelocity(btScalar(t > 4.5 && t < 8 ? 0.25 : t > 12.5 && t < 17.5 ? -0.2 : 0));
    tilt->enableAngularMotor(true,
                             btScalar(t > 6 && t < 8       ? 0.05
                                      : t > 12.5 && t < 16 ? -0.05
                                                           : 0),
                             btScalar(20000 * dt));
  }
  void drive(double wanted) {
    const double off = wanted - double(chassis->getLinearVelocity().dot(vehicle->getForwardVector()));
    const double force = std::clamp(4000 * off, -3000.0, 3000.0);
    for (int i = 0; i < 4; ++i) {
      vehicle->applyEngineForce(wanted != 0 ? btScalar(force) : 0, i);
      vehicle->setBrake(wanted != 0 ? 0 : 100, i);
    }
  }
  btRaycastVehicle::btVehicleTuning tuning;
  std::unique_ptr<btVehicleRaycaster> raycaster;
  std::unique_ptr<btRaycastVehicle> vehicle;
  btRigidBody* chassis = nullptr;
  btHingeConstraint* tilt = nullptr;
  btSliderConstraint* lift = nullptr;
};

}  // namespace

std::unique_ptr<Program> forklift() { return std::make_unique<Forklift>(); }

}  // namespace programs
