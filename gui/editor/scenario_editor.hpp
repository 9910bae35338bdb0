// The scenario of the current run, to be changed: as a form, as text, and as what it changes against the baseline.
#pragma once

#include "gui/core/run.hpp"
#include "gui/editor/documents.hpp"

#include <QStyledItemDelegate>
#include <QWidget>

class QLabel;
class QListWidget;
class QTabWidget;
class QTreeView;

namespace orrery {

class ChangesModel;
class FieldsModel;
class ScenarioText;

// Editors by a field's type: names to choose from, numbers that can be stepped, or a line of text. A step is taken over at once.
class FieldDelegate : public QStyledItemDelegate {
    Q_OBJECT
  public:
    using QStyledItemDelegate::QStyledItemDelegate;
    QWidget* createEditor(QWidget* parent, const QStyleOptionViewItem& option, const QModelIndex& index) const override;
    void setEditorData(QWidget* editor, const QModelIndex& index) const override;
    void setModelData(QWidget* editor, QAbstractItemModel* model, const QModelIndex& index) const override;
    void destroyEditor(QWidget* editor, const QModelIndex& index) const override;
    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override;
    QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override;
};

class ScenarioEditor : public QWidget {
    Q_OBJECT
  public:
    ScenarioEditor(RunStore& store, ViewState& state, Documents& documents, QWidget* parent = nullptr);

    enum Tab { FormTab, TextTab, ChangesTab };
    void showTab(Tab tab);
    void jumpTo(const std::string& pointer); // in the form or the text, whichever is in front
    QTreeView& form() { return *form_; }
    ScenarioText& text() { return *text_; }
    FieldsModel& fields() { return *fields_; }

  protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

  private:
    void show(ScenarioDocument* document);
    void refresh(); // problems and changes
    QWidget* presetsButton();
    void formMenu(const QPoint& at);

    RunStore& store_;
    ViewState& state_;
    Documents& documents_;
    FieldsModel* fields_;
    ChangesModel* changes_;
    QTabWidget* tabs_;
    QTreeView* form_;
    ScenarioText* text_;
    QLabel* verdict_;
    QListWidget* problems_;
};

} // namespace orrery
