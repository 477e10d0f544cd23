// Ragdolls on a floor: eleven capsules with limits at all joints that collide with each other and with themselves. They
// can only lose energy, however their steps are taken.
#include "world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace linchpin::test::ragdoll_test {
namespace {

constexpr double gravity = 10;

/// Position, orientation (x, y, z, w), velocity and angular velocity of each part of a doll above a floor at -8 m. One
/// step at 60 Hz took its energy from -384 J to 9828 J.
constexpr std::array<std::array<double, 13>, 11> before_a_blow{{
    {0.29992547278934617, -7.4851944635982406, -0.49153454792687767, -0.40454813414354895, -0.47190053693483125,
     0.069562377921299712, 0.78026390790521982, 1.4348380083455301, 4.6983076747795618, -1.0269957619740941,
     -10.246709120095339, -1.6944133793737342, -0.69364357226707707},
    {0.40639371300895621, -7.4221855642636632, -0.62226885950431754, -0.70425160102532902, -0.45501865089484311,
     -0.14313304481944336, 0.52583328277298402, 2.193997671727697, 1.8732211052107237, -0.96466503685436278,
     -19.020577541012543, -9.3529583716414049, -11.746993276719957},
    {0.71374816164263644, -7.3773664177729117, -0.85141339348490697, 0.40928099067315005, 0.87852088892904301,
     -0.24294275050261008, -0.040852642107403338, 10.148468777762989, -8.6101385657158893, 2.9997119366164773,
     9.0262243117519674, -21.662590295879166, -79.671532391273303},
    {0.12130445220891226, -7.6478313817345303, -0.30012263443846809, -0.65869023651516134, -0.37047852025289985,
     0.22357594956661891, 0.6155376780719497, 1.5198329088246738, 2.4962899883317173, 0.32356134775171325,
     4.3751055297224166, 0.17008583223496121, 12.204406072982856},
    {0.10306884296065519, -7.7241652484058942, 0.1311452751353937, -0.50244584663792835, -0.31032850529132561,
     0.3015572217623802, 0.7485369944117003, 1.3603691809300085, 1.2702425706642946, 0.47153026085913369,
     -0.042879984776238944, -4.9668269688583457, 11.140386578706572},
    {0.51283341883824796, -7.6244455326814382, -0.17172701637659188, -0.19801166080075852, -0.21793670030575907,
     0.37196489220632134, 0.8803051151803577, 1.7312541964808499, 5.3301232427353185, -3.2884294923470359,
     8.4501813700669075, 6.0791374438102546, -1.2212732475375954},
    {0.5486386566251894, -7.7553102881908513, 0.14342348839197064, -0.72066466732386747, -0.40686874861702821,
     0.14252055210753334, 0.54294396662708855, 5.9021921040948762, 0.13143992977435454, -2.8612213484940807,
     19.309969200378184, 19.086187522998827, 2.8104185907010613},
    {0.57120073465490306, -7.4447865801489082, -0.81226331460662393, 0.015347344856927873, -0.68137899318218254,
     -0.46985197218781594, 0.56100467991550473, 0.82626037268167773, 0.93846264259365553, 0.025751079475030747,
     49.855321256949516, 62.512715552787853, 128.69156401468263},
    {0.74839299246968527, -7.2494840718829643, -0.58213327737651688, 0.35711578154997858, -0.045748703749937898,
     -0.30572002769018136, 0.88142534530285832, -6.2331973615122083, 14.153919383715106, -3.658892576465699,
     -61.030224972602724, -34.603131618619571, -7.1800417573898105},
    {0.65454092300496414, -7.1961029922065709, -0.61661408700429421, 0.97526233439209942, 0.19574583610258919,
     0.054677265280740017, -0.086932982382929, 0.42956106719421017, -3.0977272054838689, -0.73024524678045233,
     -0.74843992366196144, -12.333604379213885, 20.186853977719796},
    {0.5175811638419251, -6.8782146352508162, -0.56475835557591147, 0.58735043983291702, 0.059847015202987748,
     0.78047785686115823, -0.20565045720538921, -6.7758449170399384, -5.5282963860961312, -2.4824000022373922,
     -8.2556557571643268, 7.4734715941148613, 23.582712393937495},
}};

class Dolls {
 public:
  Dolls(double floor, int iterations, int count = 1) : w(gravity) {
    w.world.getSolverInfo().m_numIterations = iterations;
    w.shapes.push_back(std::make_unique<btStaticPlaneShape>(btVector3(0, 1, 0), btScalar(0)));
    w.body(0, *w.shapes.back(), btVector3(0, btScalar(floor), 0), btQuaternion::getIdentity());
    std::mt19937 random(static_cast<unsigned>(std::lround(-1000 * floor)));
    std::uniform_real_distribution<double> rate(-1, 1);
    for (int i = 0; i < count; ++i) {
      const std::size_t first = w.bodies.size();
      add(btVector3(btScalar(0.1 * (i % 2)), btScalar(2 * i), btScalar(-0.1 * (i / 2))));
      const btVector3 turn(btScalar(rate(random)), btScalar(rate(random)), btScalar(rate(random)));
      for (std::size_t k = first; k < w.bodies.size(); ++k) {
        btRigidBody& part = *w.bodies[k];
        part.setAngularVelocity(turn);
        part.setLinearVelocity(turn.cross(part.getCenterOfMassPosition() - w.bodies[first]->getCenterOfMassPosition()));
      }
    }
  }

  void put(const std::array<std::array<double, 13>, 11>& state) {
    for (std::size_t k = 0; k < state.size(); ++k) {
      std::array<btScalar, 13> x;
      std::transform(state[k].begin(), state[k].end(), x.begin(), [](double u) { return btScalar(u); });
      btRigidBody& part = *w.bodies[k + 1];
      const btTransform at(btQuaternion(x[3], x[4], x[5], x[6]), btVector3(x[0], x[1], x[2]));
      part.setWorldTransform(at);
      part.setInterpolationWorldTransform(at);
      part.setLinearVelocity(btVector3(x[7], x[8], x[9]));
      part.setAngularVelocity(btVector3(x[10], x[11], x[12]));
      part.updateInertiaTensor();
    }
  }

  /// Kinetic and potential, from Bullet's own numbers [J].
  double energy() const {
    double sum = 0;
    for (std::size_t k = 1; k < w.bodies.size(); ++k) {
      const btRigidBody& part = *w.bodies[k];
      const btVector3 turn = part.getWorldTransform().getBasis().transpose() * part.getAngularVelocity();
      sum += 0.5 * double(part.getLinearVelocity().length2()) + gravity * double(part.getCenterOfMassPosition().y());
      for (int axis = 0; axis < 3; ++axis)
        sum += 0.5 * double(turn[axis]) * double(turn[axis]) / double(part.getInvInertiaDiagLocal()[axis]);
    }
    return sum;
  }

  TestWorld w;

 private:
  void add(const btVector3& at) {
    const std::size_t first = w.bodies.size();
    const btQuaternion lying(btVector3(0, 0, 1), SIMD_HALF_PI), along_z(btVector3(0, 1, 0), SIMD_HALF_PI);
    const auto part = [&](double radius, double height, double x, double y, bool lies) {
      w.shapes.push_back(std::make_unique<btCapsuleShape>(btScalar(radius), btScalar(height)));
      btRigidBody& made = w.body(1, *w.shapes.back(), at + btVector3(btScalar(x), btScalar(y), 0),
                                 lies ? lying : btQuaternion::getIdentity());
      made.setDamping(btScalar(0.05), btScalar(0.85));
      made.setActivationState(ACTIVE_TAG);
    };
    part(0.15, 0.2, 0, 1, false);
    part(0.15, 0.28, 0, 1.2, false);
    part(0.1, 0.05, 0, 1.6, false);
    for (const double side : {-0.18, 0.18}) {
      part(0.07, 0.45, side, 0.65, false);
      part(0.05, 0.37, side, 0.2, false);
    }
    for (const double side : {-1.0, 1.0}) {
      part(0.05, 0.33, 0.35 * side, 1.45, true);
      part(0.04, 0.25, 0.7 * side, 1.45, true);
    }
    const auto join = [&](std::size_t i, std::size_t k, double x, double y, const btQuaternion& turn, auto&& make) {
      btRigidBody &a = *w.bodies[first + i], &b = *w.bodies[first + k];
      const btTransform frame(turn, at + btVector3(btScalar(x), btScalar(y), 0));
      make(a, b, a.getWorldTransform().inverse() * frame, b.getWorldTransform().inverse() * frame);
    };
    const auto hinge = [&](std::size_t i, std::size_t k, double x, double y, double least, double most) {
      join(i, k, x, y, along_z, [&](btRigidBody& a, btRigidBody& b, const btTransform& in_a, const btTransform& in_b) {
        w.joint<btHingeConstraint>(a, b, in_a, in_b).setLimit(btScalar(least), btScalar(most));
      });
    };
    const auto cone = [&](std::size_t i, std::size_t k, double x, double y, double swing, double twist) {
      join(i, k, x, y, lying, [&](btRigidBody& a, btRigidBody& b, const btTransform& in_a, const btTransform& in_b) {
        w.joint<btConeTwistConstraint>(a, b, in_a, in_b).setLimit(btScalar(swing), btScalar(swing), btScalar(twist));
      });
    };
    hinge(0, 1, 0, 1.1, -0.7, 1.5);
    cone(1, 2, 0, 1.5, 0.78, 1.57);
    cone(0, 3, -0.18, 0.9, 0.78, 0);
    hinge(3, 4, -0.18, 0.42, 0, 1.57);
    cone(0, 5, 0.18, 0.9, 0.78, 0);
    hinge(5, 6, 0.18, 0.42, 0, 1.57);
    cone(1, 7, -0.2, 1.45, 1.57, 0);
    hinge(7, 8, -0.53, 1.45, 0, 1.57);
    cone(1, 9, 0.2, 1.45, 1.57, 0);
    hinge(9, 10, 0.53, 1.45, 0, 1.57);
  }
};

/// Bound on the parts of a step of one doll.
constexpr long most_parts = 1024;

// Contacts and limits were solved once for the whole step. In its parts they acted on bodies that had turned away. A
// locked twist counted as a motor, for which contacts might do anything.
TEST(Ragdolls, AStepInPartsGivesThemNoEnergy) {
  for (const int iterations : {10, 50}) {
    SCOPED_TRACE(iterations);
    Dolls dolls(-8, iterations);
    dolls.put(before_a_blow);
    bullet::Solver exact(dolls.w.world);
    const double before = dolls.energy();
    dolls.w.step(1, 1.0 / 60);
    EXPECT_LE(dolls.energy(), before);
    EXPECT_GT(exact.counts().substepped_steps, 0);
    EXPECT_LE(worst_books(exact), precision(1e-9, 1e-4));
    for (const Reaction& r : exact.reactions()) EXPECT_LE(r.gap, precision(1e-9, 1e-4)) << r.name;
  }
}

void drop(double rate, double floor, int iterations, int count, double seconds) {
  SCOPED_TRACE(std::to_string(rate) + " Hz, floor at " + std::to_string(floor) + " m, " + std::to_string(iterations) +
               " iterations");
  Dolls dolls(floor, iterations, count);
  bullet::Solver exact(dolls.w.world);
  const double at_start = dolls.energy();
  double highest = at_start;
  long before = 0, most = 0;
  for (long i = 0, n = std::lround(seconds * rate); i < n; ++i) {
    dolls.w.step(1, 1 / rate);
    highest = std::max(highest, dolls.energy());
    most = std::max(most, exact.counts().substeps - before);
    before = exact.counts().substeps;
  }
  EXPECT_LE(highest - at_start, 0.01 * std::abs(at_start));
  EXPECT_LE(most, count * most_parts);
  EXPECT_EQ(exact.counts().non_finite, 0);
}

TEST(Ragdolls, DroppedOnAFloorGainNothing) {
  for (const int iterations : {10, 50})
    for (const double rate : {60.0, 120.0, 240.0})
      for (const double floor : {-6.3, -7.2, -8.1, -8.7}) drop(rate, floor, iterations, 1, 5);
}

TEST(Ragdolls, InAHeapGainNothing) {
  for (const double rate : {60.0, 120.0}) drop(rate, -7, 10, 4, 5);
}

}  // namespace
}  // namespace linchpin::test::ragdoll_test
