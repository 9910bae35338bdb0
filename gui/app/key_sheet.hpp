// All keys on one page, made from the registry of actions and the views' own keys.
#pragma once

#include <QDialog>

namespace orrery {

class ActionRegistry;

QString key_sheet_html(const ActionRegistry& registry);

class KeySheet : public QDialog {
    Q_OBJECT
  public:
    KeySheet(const ActionRegistry& registry, QWidget* parent);
};

} // namespace orrery
