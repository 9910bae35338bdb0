#include "gui/app/actions.hpp"

#include "topology/check.hpp"

#include <QAction>
#include <QMenu>
#include <QMenuBar>
#include <QWidget>

#include <algorithm>

namespace orrery {
namespace {

constexpr const char* menu_property = "orrery_menu";
constexpr const char* separator_property = "orrery_separator";
constexpr const char* in_menu_property = "orrery_in_menu";
constexpr const char* keys_property = "orrery_keys"; // of a view's own command

} // namespace

ActionRegistry::ActionRegistry(QWidget& window) : QObject(&window), window_(window) {}

QAction& ActionRegistry::add(const ActionSpec& spec, std::function<void()> run) {
    auto* action = new QAction(&window_);
    connect(action, &QAction::triggered, this, [run = std::move(run)] { run(); });
    return adopt(spec, *action);
}

QAction& ActionRegistry::add(const ActionSpec& spec, QAction& existing) { return adopt(spec, existing); }

QAction& ActionRegistry::adopt(const ActionSpec& spec, QAction& action) {
    require(find(spec.id) == nullptr, "two actions of one id: " + spec.id.toStdString());
    action.setObjectName(spec.id);
    action.setText(spec.text);
    action.setToolTip(spec.tip);
    action.setStatusTip(spec.tip);
    action.setShortcuts(spec.shortcuts);
    action.setProperty(menu_property, spec.menu);
    action.setProperty(separator_property, spec.separator_before);
    action.setProperty(in_menu_property, spec.in_menu);
    window_.addAction(&action);
    actions_.push_back(&action);
    return action;
}

QAction* ActionRegistry::find(const QString& id) const {
    const auto it = std::find_if(actions_.begin(), actions_.end(), [&](const QAction* a) { return a->objectName() == id; });
    return it == actions_.end() ? nullptr : *it;
}

QString ActionRegistry::menuOf(const QAction& action) { return action.property(menu_property).toString().remove(QLatin1Char('&')); }

QString ActionRegistry::keysOf(const QAction& action) {
    const QString of_view = action.property(keys_property).toString();
    return of_view.isEmpty() ? QKeySequence::listToString(action.shortcuts(), QKeySequence::NativeText) : of_view;
}

void ActionRegistry::addOfView(const QString& view, const QString& title, const ViewCommand& command, std::function<void()> run) {
    if (!command.run) return addHint(title, command.text, command.mouse);
    ActionSpec spec;
    spec.id = view + QLatin1Char('.') + command.id;
    spec.menu = title;
    spec.text = command.text;
    spec.tip = command.tip.isEmpty() ? command.text : command.tip;
    spec.in_menu = false;
    add(spec, std::move(run)).setProperty(keys_property, QKeySequence::listToString(command.keys, QKeySequence::NativeText));
}

void ActionRegistry::addHint(const QString& title, const QString& what, const QString& keys) { hints_.push_back({title, what, keys}); }

void ActionRegistry::fill(QMenuBar& bar) const {
    std::vector<std::pair<QString, QMenu*>> menus;
    for (QAction* action : actions_) {
        if (!action->property(in_menu_property).toBool()) continue;
        const QString title = action->property(menu_property).toString();
        auto it = std::find_if(menus.begin(), menus.end(), [&](const auto& m) { return m.first == title; });
        if (it == menus.end()) {
            QMenu* menu = bar.addMenu(title);
            menu->setObjectName(QStringLiteral("menu.") + menuOf(*action));
            menu->setToolTipsVisible(true);
            it = menus.insert(menus.end(), {title, menu});
        }
        if (action->property(separator_property).toBool()) it->second->addSeparator();
        it->second->addAction(action);
    }
}

} // namespace orrery
