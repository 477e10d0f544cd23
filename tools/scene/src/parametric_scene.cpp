#include <linchpin/scene/joint_limits.h>
#include <linchpin/scene/parametric_scene.h>

#include <algorithm>
#include <stdexcept>

namespace linchpin::scene {

std::vector<double> logs_at_start(const Model& model, std::size_t count) {
  const System system = model.system();
  const State start = system.initial_state();
  std::vector<double> out;
  for (std::size_t i = model.logs.size() - count; i < model.logs.size(); ++i)
    out.push_back(model.logs[i]({system, start, {}})[0]);
  return out;
}

struct ParametricScene::Impl {
  ParametricReader read;
  std::vector<std::string> names;
  std::vector<double> values;
  std::map<std::vector<double>, Model> models;

  const Model& model(const std::vector<double>& of) {
    const auto at = models.find(of);
    if (at != models.end()) return at->second;
    std::map<std::string, double, std::less<>> params;
    for (std::size_t i = 0; i < names.size(); ++i) params[names[i]] = of[i];
    return models.emplace(of, with_joint_limits(read(params))).first->second;
  }
};

ParametricScene::ParametricScene(ParametricReader read, std::vector<std::string> names, std::vector<double> values)
    : impl_(std::make_shared<Impl>()) {
  if (names.size() != values.size())
    throw std::invalid_argument(std::to_string(names.size()) + " parameters have " + std::to_string(values.size()) +
                                " values");
  for (auto name = names.begin(); name != names.end(); ++name)
    if (std::find(names.begin(), name, *name) != name)
      throw std::invalid_argument("the parameter \"" + *name + "\" is given twice");
  impl_->read = std::move(read);
  impl_->names = std::move(names);
  impl_->values = std::move(values);
  impl_->model(impl_->values);
}

const Model& ParametricScene::model() const { return impl_->model(impl_->values); }

ParametricSystem ParametricScene::system() const {
  return {impl_->names, impl_->values, [impl = impl_](std::span<const double> values) {
            try {
              return impl->model({values.begin(), values.end()}).system();
            } catch (const SceneError& e) {  // Values beside the given ones may be out of their range.
              throw std::invalid_argument(e.message);
            }
          }};
}

int ParametricScene::output_count() const {
  int count = 0;
  for (const Channel& channel : model().logs) count += channel.size();
  return count;
}

OutputFunction ParametricScene::outputs() const {
  return [impl = impl_](const OutputPoint& at, std::span<double> out) {
    const Model& model = impl->model({at.parameters.begin(), at.parameters.end()});
    auto to = out.begin();
    for (const Channel& channel : model.logs)
      to = std::ranges::copy(channel({at.system, at.state, at.reactions}), to).out;
  };
}

bool ParametricScene::reads_forces() const {
  return std::ranges::any_of(model().logs, [](const Channel& channel) { return channel.reads_forces(); });
}

}  // namespace linchpin::scene
